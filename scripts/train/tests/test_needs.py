from orchestra_train.needs import NEEDS, made_requests


def test_every_need_is_asked_for_in_many_wordings():
    requests = made_requests()
    for need in NEEDS:
        assert len({text for text, needs in requests if need in needs}) >= 60
    assert any(not needs for _, needs in requests)
