"""A policy is measured through the served gateway, in a world whose best policy is known."""

from pathlib import Path

import numpy as np
import pytest
import torch

from orchestra_train.contract.load import load_contract
from orchestra_train.evaluation.gateway import PolicyFiles, outcome_of, serve_gateway
from orchestra_train.evaluation.metrics import Measured, measured_from
from orchestra_train.evaluation.report import markdown
from orchestra_train.evaluation.scenario import Reply, Scenario, Slot, Task
from orchestra_train.evaluation.world import World, with_chances, world_scenario
from orchestra_train.evaluation.world_probes import at_chosen_weights, sweep_table
from orchestra_train.evaluation.world_report import evaluate_world
from orchestra_train.gguf_file import tiny_model, write_adapter, write_model
from orchestra_train.model import add_adapter
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
    write_adapter(source, folder / "adapter.gguf", BELIEFS)
    return folder / "base.gguf", folder / "adapter.gguf"


def test_a_tiny_policy_runs_through_the_world_within_every_limit(tiny: tuple[Path, Path]) -> None:
    report = evaluate_world(20, PolicyFiles(tiny[0], context=512), "tiny", probes=4, wishes="words")
    row = report["rows"]["tiny"]
    assert (row["valid"], row["privacy_broken"], row["over_budget"]) == (1.0, 0, 0)
    assert row["regret"] >= 0
    assert report["rows"]["strongest"]["usd_per_thousand"] > report["rows"]["cheapest"]["usd_per_thousand"]
    gates = {gate["name"]: gate for gate in report["gates"]}
    for name in ("share of valid decisions", "privacy violations", "runs over budget"):
        assert gates[name]["ok"]
    assert gates["Spearman of cost and its weight"]["value"] <= 0
    # Wishes are words here, so it has to be ahead of who reads none.
    assert len(gates) == 9
    assert gates["mean utility minus that of estimate"]["value"] is not None
    swept = report["figures"]["[points beside strongest's, share of its cost] by cost weight"]
    assert swept.keys() == {"tiny", "best feasible"}
    # Who knows all is never the worse for money: with none of it counted, it answers best.
    assert max(swept["best feasible"].values()) == swept["best feasible"]["0"]
    assert swept["best feasible"]["1"][1] < swept["best feasible"]["0"][1]
    assert {"tiny", "estimate"} <= set(report["rows"])
    assert "| tiny |" in markdown(report)


def test_each_half_of_a_sweep_is_measured_at_the_weight_that_the_other_half_chose() -> None:
    def row(points: list[float], usd: list[float]) -> Measured:
        return Measured(right=np.zeros(4), usd=np.array(usd), chances=0.5 + np.array(points) / 100)

    strongest = row([0, 0, 0, 0], [10, 10, 10, 10])
    # Cheap is good enough on the second half alone, so the first half alone is measured at it.
    swept = {0.1: row([1, 1, 1, 1], [8, 8, 6, 6]), 1.0: row([-9, -9, -2, -2], [1, 1, 2, 2])}
    points, share, weights = at_chosen_weights(swept, strongest)
    assert weights == (1.0, 0.1)
    assert (points, share) == (pytest.approx(-4), pytest.approx((1 + 1 + 6 + 6) / 40))
    assert sweep_table(swept, strongest) == {"0.1": [1, 0.7], "1": [-5.5, 0.15]}


def test_a_contract_that_nobody_gave_is_left_to_the_weights() -> None:
    policy = Path("own.gguf")
    assert PolicyFiles(policy, contract="slots-2").section()["contract"] == "slots-2"
    assert "contract" not in PolicyFiles(policy, contract=None).section()


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


HELP = {"quality": 0.01, "cost": 0.0, "latency": 0.0, "privacy": 0.0}


@pytest.mark.parametrize("role", ["search", "enhance_reasoning"])
def test_a_helper_finds_what_makes_later_answers_right(role: str) -> None:
    world = world_scenario(100, seed=1)
    helped = [
        task
        for task, episode in enumerate(world.episodes)
        if any(
            slot.role == role and slot.id in set(world.scenario.admissible(task)) - episode.down
            for slot in episode.slots
        )
    ]
    liked = {**HELP, "tools": {f"role:{role}": 1.0}}
    with serve_gateway(world.scenario, PolicyFiles()) as gateway:
        outcomes = {task: gateway.run(task, liked) for task in helped[:6]}
    # Every step is one that the world knows too, and so is what came of it.
    with_chances(world, list(outcomes), measured_from(list(outcomes.values())), load_contract("slots-2"))
    for task, outcome in outcomes.items():
        # It would have ended with an error, had an answer not been what this world says after such help.
        assert outcome.failure is None
        assert any(world.scenario.slots[slot].role == role for slot in outcome.calls)
        assert outcome.cost_usd == pytest.approx(sum(world.scenario.cost_usd(task, slot) for slot in outcome.calls))


def test_help_raises_the_chance_of_a_right_answer_in_the_helpers_domains() -> None:
    world = world_scenario(300, seed=2)
    right = {
        helpers: np.mean(
            [
                world.scenario.reply(task, slot.id, helpers).right
                for task, episode in enumerate(world.episodes)
                for slot in episode.slots
                if slot.role == "answer"
                and episode.domain in ("law", "medicine", "history")
                and any(other.role == "search" for other in episode.slots)
            ]
        )
        for helpers in ((), ("search",))
    }
    assert right["search",] > right[()] + 0.05


def test_who_fails_is_left_for_another_without_a_charge() -> None:
    world = world_scenario(100, seed=4)
    failing = [task for task, episode in enumerate(world.episodes) if any("answer" in slot for slot in episode.down)]
    assert failing
    with serve_gateway(world.scenario, PolicyFiles()) as gateway:
        outcomes = {task: gateway.run(task, {**HELP, "tools": _liking(world, task)}) for task in failing}
    for task, outcome in outcomes.items():
        assert outcome.failure is None
        assert not set(outcome.calls) & world.episodes[task].down
    # Somebody who failed was asked first, and still the run ended with an answer.
    assert any(outcome.path[0][1] in world.episodes[task].down for task, outcome in outcomes.items())


def test_a_run_that_ends_without_an_answer_still_costs_what_was_spent() -> None:
    slots = {
        "answer-1": Slot("answer-1", "Good at law.", {"per_call": 0.02}, 1000),
        "search-1": Slot("search-1", "Finds laws.", {"per_call": 0.01}, 1000, "self_hosted", role="search"),
    }
    down = frozenset({"answer-1"})
    task = Task("Who may fish here?", tuple(slots), HELP, down=down, found={"search": "x"})
    scenario = Scenario("down", slots, [task], lambda *_: Reply("Nobody.", True, 100, 100))
    with serve_gateway(scenario, PolicyFiles()) as gateway:
        outcome = gateway.run(0, {**HELP, "tools": {"role:search": 1.0}})
    assert outcome.failure is not None and not outcome.right
    assert outcome.calls == ("search-1",)
    assert outcome.cost_usd == pytest.approx(0.01)
    assert (outcome.path, outcome.decided < outcome.turns) == ((), True)


def test_a_turn_that_left_the_policy_nothing_to_decide_is_not_held_against_it() -> None:
    scenario = world_scenario(1).scenario
    slot = next(one for one in scenario.tasks[0].slots if scenario.slots[one].role == "answer")
    deciders = ("policy", "only choice", "forced", "estimate")
    shared = {"slot": slot, "role": "answer", "outcome": "answered", "predicted": {"latency_ms": 1}}
    turns = [{**shared, "decided_by": name, "actual": {"cost_usd": 0.1}} for name in deciders]
    record = {"turns": turns, "cost": {"total": 0.4}, "policy": {"name": "policy"}, "model": slot}
    outcome = outcome_of(scenario, 0, scenario.reply(0, slot, ()).text, record)
    assert (outcome.turns, outcome.decided) == (2, 1)


def _liking(world: World, task: int) -> dict[str, float]:
    return {f"slot:{slot}": 1.0 for slot in world.episodes[task].down}


def test_a_policy_that_cannot_be_loaded_ends_the_evaluation(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    with (
        pytest.raises(RuntimeError, match="did not start"),
        serve_gateway(world_scenario(2).scenario, PolicyFiles(broken)),
    ):
        pass
