"""A policy is measured through the served gateway, and the rows beside it are what they say."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from orchestra_train.contract.load import load_contract
from orchestra_train.evaluation.baselines import baseline_rows, fit
from orchestra_train.evaluation.gateway import PolicyFiles, serve_gateway
from orchestra_train.evaluation.metrics import Measured, adherence, cost_at_accuracy, paired_interval
from orchestra_train.evaluation.recorded import read_table, replay_scenario
from orchestra_train.evaluation.replay_report import evaluate_pack
from orchestra_train.evaluation.report import log_look, markdown
from orchestra_train.evaluation.scenario import Reply, Scenario, Slot, Task
from orchestra_train.evaluation.world import world_scenario
from orchestra_train.evaluation.world_report import evaluate_world
from orchestra_train.gguf_file import tiny_model, write_adapter, write_model
from orchestra_train.model import add_adapter
from orchestra_train.replay import replay_folder
from orchestra_train.tokenizer import tiny_tokenizer

BELIEFS = load_contract("beliefs-1")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A base that believes noise, and an adapter that believes something else."""
    folder = tmp_path_factory.mktemp("tiny")
    words = [slot.quality for slot in world_scenario(25).scenario.slots.values()]
    tokenizer = tiny_tokenizer([*words, *BELIEFS["grades"] * 50, *BELIEFS["questions"].values()], 400)
    source = tiny_model("llama", tokenizer, seed=1)
    write_model(source, folder / "base.gguf", "F32")
    torch.manual_seed(5)
    add_adapter(source.model, rank=4, alpha=8)
    for part in source.model.projections().values():
        torch.nn.init.normal_(part.lora_b, std=0.3)
    write_adapter(source, folder / "adapter.gguf")
    return folder / "base.gguf", folder / "adapter.gguf"


def test_a_tiny_policy_runs_through_the_world_within_every_limit(tiny: tuple[Path, Path]) -> None:
    report = evaluate_world(20, PolicyFiles(tiny[0], context=512), "tiny", probes=4)
    row = report["rows"]["tiny"]
    assert (row["valid"], row["privacy_broken"], row["over_budget"]) == (1.0, 0, 0)
    assert row["regret"] >= 0
    assert report["rows"]["strongest"]["usd_per_thousand"] > report["rows"]["cheapest"]["usd_per_thousand"]
    assert report["figures"]["cost against its weight, Spearman"] <= 0
    assert "| tiny |" in markdown(report)


def test_an_adapter_is_served_on_its_base(tiny: tuple[Path, Path]) -> None:
    scenario = world_scenario(3).scenario

    def chances(policy: PolicyFiles) -> list[float]:
        with serve_gateway(scenario, policy) as gateway:
            return gateway.beliefs(0)

    base, adapter = tiny
    plain, adapted = (chances(PolicyFiles(base, one, context=512)) for one in (None, adapter))
    assert max(abs(one - other) for one, other in zip(plain, adapted, strict=True)) > 0.01


def test_what_the_gateway_charges_is_what_its_calls_cost() -> None:
    world = world_scenario(6, seed=3)
    with serve_gateway(world.scenario, PolicyFiles()) as gateway:
        outcomes = gateway.run_all(range(6), "estimate")
    for task, outcome in enumerate(outcomes):
        assert outcome.cost_usd == pytest.approx(sum(world.scenario.cost_usd(task, slot) for slot in outcome.calls))
        assert set(outcome.calls) <= set(world.scenario.tasks[task].slots)


def test_a_policy_that_cannot_be_loaded_ends_the_evaluation(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    with (
        pytest.raises(RuntimeError, match="did not start"),
        serve_gateway(world_scenario(2).scenario, PolicyFiles(broken)),
    ):
        pass


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
    schedules = {"llmrouter": {"list": PRICES}}
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


def test_equal_answers_agree_and_answers_that_were_not_recorded_are_not_compared(pack: str) -> None:
    scenario = replay_scenario(read_table(pack), np.array([0, 1]))
    assert scenario.reply(0, "answer-1").text == scenario.reply(0, "answer-3").text
    assert scenario.reply(0, "answer-1").text != scenario.reply(0, "answer-2").text


def test_adherence_weighs_what_a_right_run_did_against_the_reference() -> None:
    slots = {"answer-1": Slot("answer-1", "x", {}, 1, "local"), "answer-2": Slot("answer-2", "y", {}, 1)}
    weights = {"quality": 0.5, "cost": 0.25, "latency": 0.125, "privacy": 0.125}
    tasks = [Task("a", tuple(slots), weights), Task("b", tuple(slots), weights)]
    scenario = Scenario("two", slots, tasks, lambda task, slot: Reply("", True, 0, 0))
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
