from orchestra_train.gist import gist_of


def test_short_texts_stay_whole():
    assert gist_of("🙂" * 600) == "🙂" * 600


def test_long_texts_keep_both_ends():
    assert gist_of("a" * 500 + "b" * 500) == "a" * 400 + "\n" + "b" * 200
