"""Variants are trained and examined alike, in a table that a killed run goes on with."""

from pathlib import Path

import numpy as np
import pytest

from orchestra_train import ablation
from orchestra_train.ablation import VARIANTS, ablate
from orchestra_train.contract.load import load_contract
from orchestra_train.exam import always_strongest, best_feasible, examine
from orchestra_train.grpo import GrpoSettings, Measured, _weigh
from orchestra_train.reward import Group, Preference, RunningSpread
from orchestra_train.smoke import SHAPE
from orchestra_train.world.roster import WorldShape, fresh_roster

OURS, COLD = next(iter(VARIANTS)), "no SFT"


def test_two_variants_fill_a_table_and_finished_cells_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = ablate(tmp_path, [1], 2, [OURS, COLD], episodes=6)
    assert list(report["rows"]) == [OURS, COLD]
    assert [cell["seed"] for cell in report["cells"]] == [1, 1]
    lines = (tmp_path / "ablation.md").read_text().splitlines()
    assert sum(line.startswith(f"| {name} |") for line in lines for name in (OURS, COLD)) == 2
    # The cold one has no warm start of its own, and both trained as long.
    assert [path.name for path in sorted(tmp_path.rglob("sft.jsonl"))] == ["sft.jsonl"]
    curves = [path.read_text() for path in tmp_path.rglob("grpo.jsonl")]
    assert [len(curve.splitlines()) for curve in curves] == [2, 2]
    assert curves[0] != curves[1]

    monkeypatch.setattr(ablation, "_cell", lambda *_: pytest.fail("a finished cell was trained again"))
    assert ablate(tmp_path, [1], 2, [OURS, COLD], episodes=6) == report


def test_the_best_feasible_policy_wastes_nothing_and_the_strongest_does() -> None:
    rules = load_contract("slots-2")
    best = examine(best_feasible(rules), rules, SHAPE, 40)
    strongest = examine(always_strongest, rules, SHAPE, 40)
    assert best["regret"] == 0
    assert strongest["regret"] > 0
    assert best["cost_usd"] < strongest["cost_usd"]


def test_a_component_that_is_left_out_of_the_reward_has_no_say() -> None:
    def ranked(without: tuple[str, ...]) -> bool:
        costs = np.array([0.001, 0.1, 0.001, 0.1])
        calls = np.zeros((4, 1))
        group = Group(np.array([1.0, 1.0, 0.0, 1.0]), costs, np.ones(4), calls, np.zeros(4, bool))
        measured = Measured([group], [Preference(0.5, 0.5, 0.0, 0.0, np.zeros(1))], [np.ones(4, bool)])
        [scores], _ = _weigh(measured, GrpoSettings(1, without=without), RunningSpread())
        return bool(scores[0] > scores[1])

    assert ranked(())
    assert not ranked(("cost",))


def test_tools_stay_the_same_and_prices_follow_skill_where_asked() -> None:
    rng = np.random.default_rng(0)
    same = WorldShape(same_tools=3)
    first, second = (fresh_roster(rng, same, False) for _ in range(2))
    assert [slot.quality for slot in first] == [slot.quality for slot in second]
    listed = fresh_roster(rng, WorldShape(listed_prices=True, slots=(4, 4), helpers=False, limited=0), False)
    by_skill = sorted(listed, key=lambda slot: slot.skills.mean())
    assert [slot.cost_usd for slot in by_skill] == pytest.approx([0.002, 0.004, 0.008, 0.016])
