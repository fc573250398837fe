"""Recorded outcomes: replayed through the gateway, and rows beside it that need none and are what they say."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from orchestra_train.evaluation.baselines import baseline_rows
from orchestra_train.evaluation.cascades import thirds
from orchestra_train.evaluation.fitted import Fitted, fit
from orchestra_train.evaluation.gates import at_least, at_most, list_gates, table_gate
from orchestra_train.evaluation.gateway import PolicyFiles
from orchestra_train.evaluation.metrics import Measured, adherence, cost_at_accuracy, paired_interval
from orchestra_train.evaluation.recorded import Table, read_table, replay_scenario
from orchestra_train.evaluation.replay_report import evaluate_pack
from orchestra_train.evaluation.report import log_look, write_summary
from orchestra_train.evaluation.scenario import Reply, Scenario, Slot, Task
from orchestra_train.replay import replay_folder

MODELS = ("strong", "sums", "words", "weak")
PRICES = {"strong": [100, 100], "sums": [1, 1], "words": [1, 1], "weak": [0.1, 0.1]}
ITEMS = 240


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two domains; `sums` and `words` each know one of them, `strong` both, `weak` neither."""
    root = tmp_path / "replay"
    (root / "llmrouter").mkdir(parents=True)
    domains = ["sums" if at % 2 else "words" for at in range(ITEMS)]
    items = [
        {
            "id": f"i{at}",
            "domain": domain,
            "prompt": f"{'Add the numbers' if domain == 'sums' else 'Spell the word'} of case {at}",
            "prompt_tokens": 100,
            "input_tokens_sent": 100,
        }
        for at, domain in enumerate(domains)
    ]
    with gzip.open(root / "llmrouter/items.jsonl.gz", "wt") as lines:
        lines.writelines(json.dumps(item) + "\n" for item in items)
    models = [
        {
            "index": at,
            "id": name,
            "anon_id": f"m{at}",
            "default_roster": True,
            "held_out": name == "weak",
            "privacy_class": "local" if name == "weak" else "third-party",
        }
        for at, name in enumerate(MODELS)
    ]
    (root / "llmrouter/models.json").write_text(json.dumps({"models": models, "assumed_output_tokens": 100}))
    right = np.array([[1, domain == "sums", domain == "words", 0] for domain in domains], np.int8)
    answers = np.where(right == 1, 0, np.arange(1, 5)).astype(np.int16)
    np.savez(
        root / "llmrouter/outcomes.npz",
        correct=right,
        out_tokens=np.full(right.shape, 50, np.int32),
        answer_class=answers,
    )
    splits = {"train": items[:160], "validation": items[160:200], "test": items[200:]}
    named = {name: [item["id"] for item in part] for name, part in splits.items()}
    # The strongest costs least; what `sums` and `words` cost goes to the others.
    cheap = {"strong": [0.1, 0.1], "sums": [1, 1], "words": [1, 1], "weak": [100, 100]}
    schedules = {"llmrouter": {"list": PRICES, "strongest_cheapest": cheap, "permuted": cheap}}
    (root / "splits.json").write_text(json.dumps({"items": {"llmrouter": named}, "price_schedules": schedules}))
    cards = [
        {
            "anon_id": f"m{at}",
            "accuracy": float(right[:, at].mean()),
            "by_domain": {
                name: {"n": 30, "accuracy": float(right[np.array(domains) == name, at].mean())}
                for name in ("sums", "words")
            },
            "text": {"verbal": "Very strong overall." if name == "strong" else "Weak overall."},
        }
        for at, name in enumerate(MODELS)
    ]
    (root / "cards.json").write_text(json.dumps({"cards": {"llmrouter": cards}}))
    monkeypatch.setenv("ORCHESTRA_REPLAY", str(root))
    return "llmrouter"


def test_rows_without_a_gateway_are_what_they_say(pack: str) -> None:
    table = read_table(pack)
    rows = baseline_rows(fit(table), table.rows("test"))
    accuracy = {name: float(row.right.mean()) for name, row in rows.items()}
    cost = {name: round(1e6 * float(row.usd.mean())) for name, row in rows.items()}
    assert accuracy["strongest"] == accuracy["oracle"] == accuracy["one model a domain"] == 1
    assert (accuracy["random"], accuracy["cheapest"]) == (0.5, 0)
    assert (cost["strongest"], cost["cheapest"], cost["oracle"]) == (15_000, 15, 150)
    assert cost["one model a domain"] == cost["domain from text × cards"] == cost["kNN"] == 150
    # Between `weak` and `strong`, or one of the halves and `strong`: no mixture of two is right as often as the table.
    assert accuracy["mixture at the cost of kNN"] == pytest.approx(0.5)


def test_a_roster_can_be_cut_to_what_training_never_called(pack: str) -> None:
    assert [model["id"] for model in read_table(pack, roster="unseen").models] == ["weak"]
    assert [model["id"] for model in read_table(pack, roster="seen").models] == ["strong", "sums", "words"]


def test_a_pack_is_replayed_through_the_gateway(pack: str) -> None:
    table = read_table(pack)
    rows = table.rows("test")[:8]
    report = evaluate_pack(table, rows, "test", PolicyFiles(), [0.0, 1.0], "estimate", skills=True)
    served, thrifty = (report["rows"][f"estimate, cost weight {weight}"] for weight in (0, 1))
    # Nothing but quality counts, and the cards know who is right.
    assert (served["accuracy"], served["valid"], served["privacy_broken"]) == (1.0, 1.0, 0)
    assert thrifty["usd_per_thousand"] < report["rows"]["strongest"]["usd_per_thousand"]
    assert thrifty["usd_per_thousand"] < served["usd_per_thousand"]


def test_a_strongest_that_is_cheapest_too_gets_every_call(pack: str) -> None:
    table = read_table(pack, "strongest_cheapest")
    report = evaluate_pack(table, table.rows("test")[:8], "test", PolicyFiles(), [0.1], "estimate", skills=True)
    gates = {gate["name"]: gate for gate in report["gates"]}
    assert gates["share of calls to the strongest"] == {
        "name": "share of calls to the strongest",
        "value": 1.0,
        "bar": ">= 0.99",
        "ok": True,
    }
    assert len(gates) == 4


def test_a_third_answer_decides_or_makes_two_of_three() -> None:
    # The dear one is always right. The others agree; the third sides with the second; all differ; nobody answered.
    answers = np.array([[0, 1, 1, 2], [0, 1, 0, 0], [0, 1, 2, 0], [0, -1, -1, -1]])
    right = np.array([[1, 0, 0, 0], [1, 0, 1, 1], [1, 0, 0, 1], [1, 0, 0, 0]], float)
    usd = np.tile([100.0, 1.0, 2.0, 4.0], (4, 1))
    answers[2, 3] = 3
    rows = np.arange(4)
    nothing = np.zeros(0)
    table = Table("made", [], nothing, nothing, [{}] * 4, [], nothing, right, usd, usd, answers)
    fitted = Fitted(table, rows, rows, 0, right.mean(0), usd.mean(0), [], nothing, None)
    third_decides, two_of_three = (plan(rows) for plan in thirds(fitted)[:2])
    assert third_decides[0].tolist() == [0, 1, 1, 0]
    assert third_decides[1].tolist() == [3, 7, 7, 7]
    assert two_of_three[0].tolist() == [0, 1, 1, 1]
    assert two_of_three[1].tolist() == [3, 7, 107, 107]


def test_a_gate_says_what_was_measured_and_what_could_not_be_is_not_met() -> None:
    assert at_least("share", 0.991, 0.99) == {"name": "share", "value": 0.991, "bar": ">= 0.99", "ok": True}
    assert not at_most("cost", 0.36, 0.35)["ok"]
    assert at_most("cost", None, 0.35) == {"name": "cost", "value": None, "bar": "<= 0.35", "ok": False}


def test_a_pack_is_cleared_by_the_cheapest_row_that_is_right_often_enough() -> None:
    strongest = Measured(np.array([1.0, 0.0] * 50), np.full(100, 1.0))
    level = Measured(strongest.right, np.full(100, 0.15))
    better = Measured(np.array([1.0, 0.0] * 48 + [1.0] * 4), np.full(100, 0.5))
    [equal, ahead] = list_gates("llmrouter", strongest, [level, better])
    assert (equal["value"], equal["ok"]) == (0.15, True)
    assert (ahead["value"], ahead["ok"]) == (None, False)
    by_domain = Measured(strongest.right, np.full(100, 0.25))
    assert table_gate(by_domain, [(0.25, 0.125), (0.75, 0.375)]) == {
        "name": "cost over that of one model a domain, at its accuracy",
        "value": 1.0,
        "bar": "<= 1",
        "ok": True,
    }


def test_a_summary_holds_the_gates_and_rows_of_all_reports(tmp_path: Path) -> None:
    one = {"gates": [at_least("x", 1.0, 1)], "rows": {"estimate": {"accuracy": 0.5}}}
    lines = write_summary(tmp_path, {"world": one, "zeroeval": {"gates": [at_most("y", 2.0, 1)], "rows": {}}})
    summary = json.loads((tmp_path / "report.json").read_text())
    assert [(gate["name"], gate["ok"]) for gate in summary["gates"]] == [("world: x", True), ("zeroeval: y", False)]
    assert summary["table"] == [{"report": "world", "row": "estimate", "accuracy": 0.5}]
    assert lines[1].startswith("NOT zeroeval: y")


def test_equal_answers_agree_and_answers_that_were_not_recorded_are_not_compared(pack: str) -> None:
    scenario = replay_scenario(read_table(pack), np.array([0, 1]))
    assert scenario.reply(0, "answer-1", ()).text == scenario.reply(0, "answer-3", ()).text
    assert scenario.reply(0, "answer-1", ()).text != scenario.reply(0, "answer-2", ()).text


def test_adherence_weighs_what_a_right_run_did_against_the_reference() -> None:
    slots = {"answer-1": Slot("answer-1", "x", {}, 1, "local"), "answer-2": Slot("answer-2", "y", {}, 1)}
    weights = {"quality": 0.5, "cost": 0.25, "latency": 0.125, "privacy": 0.125}
    tasks = [Task("a", tuple(slots), weights), Task("b", tuple(slots), weights)]
    scenario = Scenario("two", slots, tasks, lambda task, slot, roles: Reply("", True, 0, 0))
    two = [("answer-2",)] * 2
    reference = Measured(np.ones(2), np.array([0.1, 0.1]), np.array([100.0, 100.0]), two)
    assert adherence(scenario, [0, 1], reference, reference) == pytest.approx(0.5 + 0.25 + 0.125)
    # Right once: half the money, double the time, one call of a slot that is liked; the wrong run adds nothing.
    one = Measured(np.array([1.0, 0.0]), np.array([0.05, 0.0]), np.array([200.0, 1.0]), [("answer-1",), ("answer-1",)])
    assert adherence(scenario, [0, 1], one, reference) == pytest.approx((0.5 + 0.25 * 2 + 0.125 / 2 + 0.125) / 2)


def test_cost_at_equal_accuracy_is_read_off_the_frontier() -> None:
    assert cost_at_accuracy([(0.5, 1.0), (0.9, 3.0)], 0.7) == pytest.approx(2.0)
    assert cost_at_accuracy([(0.5, 1.0), (0.9, 3.0), (0.8, 1.0)], 0.7) == pytest.approx(1.0)
    assert cost_at_accuracy([(0.5, 1.0)], 0.7) is None


def test_a_paired_interval_is_narrower_than_the_scatter_of_either_row() -> None:
    rng = np.random.default_rng(0)
    strongest = (rng.random(400) < 0.6).astype(float)
    other = strongest.copy()
    other[:20] = 1 - other[:20]
    low, high = paired_interval(other - strongest)
    assert low <= float((other - strongest).mean()) <= high
    assert high - low < 0.06


def test_every_look_at_test_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log_look(tmp_path, "zeroeval", "estimate", 805)
    log_look(tmp_path, "llmrouter", "estimate", 10)
    log_look(tmp_path, "zeroeval", "mine", 805)
    assert capsys.readouterr().out.splitlines()[-1].startswith("look 2 at the test split of zeroeval")
    assert len((tmp_path / "looks-at-test.log").read_text().splitlines()) == 3


@pytest.mark.skipif(not (replay_folder() / "baselines.json").exists(), reason=f"no packs in {replay_folder()}")
def test_rows_without_a_gateway_are_those_that_the_packs_publish() -> None:
    published = json.loads((replay_folder() / "baselines.json").read_text())["zeroeval"]
    table = read_table("zeroeval")
    rows = baseline_rows(fit(table), table.rows("test"))
    twins = {
        "random": "random",
        "cheapest": "always_cheapest",
        "strongest": "always_strongest",
        "one model a domain": "domain_table_equal",
        "one cascade a domain": "domain_cascade_equal",
        "oracle": "oracle",
    }
    known = published["list"]["rows"]
    for name, twin in twins.items():
        assert float(rows[name].right.mean()) == pytest.approx(known[twin]["accuracy"], abs=1e-4), name
        assert 1000 * float(rows[name].usd.mean()) == pytest.approx(known[twin]["usd_per_1k"], abs=1e-3), name
