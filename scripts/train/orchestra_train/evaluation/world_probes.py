"""What a policy does on the same tasks when weights and prices change: sweeps, profiles, swapped prices."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..contract.load import Contract
from ..world.decide import utility_of
from ..world.episode import AXES, PROFILES
from .gates import WORLD_POINTS, WORLD_SHARE, Gate, at_least, at_most
from .gateway import Gateway
from .metrics import Measured, measured_from, spearman
from .world import World, first_utilities, with_chances

SWEEP = (0.0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0)
# In utility, where a sure right answer is worth 8 at full weight: a choice so near to the best counts as the best, and
# to stay with a choice that loses more than the other has to be noticed.
AS_GOOD, LOSS = 0.05, 0.25


@dataclass(frozen=True)
class Probes:
    """`swept` by cost weight beside quality 0.5; of `tempted` swaps, which spoil a choice, `followed` moved it."""

    tasks: Sequence[int]
    swept: dict[float, Measured]
    profiles: dict[str, Measured]
    tempted: int
    followed: int

    def rows(self) -> list[Measured]:
        return [*self.swept.values(), *self.profiles.values()]


def probe(gateway: Gateway, world: World, tasks: Sequence[int], rules: Contract) -> Probes:
    def row(label: str, weights: dict[str, float]) -> Measured:
        return with_chances(world, tasks, measured_from(gateway.run_all(tasks, label, weights)), rules)

    swept = {cost: row(f"cost {cost:g}", balanced(cost)) for cost in SWEEP}
    profiles = {name: row(name, _profile(name)) for name in PROFILES}
    return Probes(tasks, swept, profiles, *_swaps(gateway, world, tasks, rules))


def probe_gates(probes: Probes, strongest: Measured, rules: Contract) -> list[Gate]:
    points, share, weights = at_chosen_weights(probes.swept, strongest)
    costs = [row.usd.mean() for row in probes.swept.values()]
    followed = probes.followed / probes.tempted if probes.tempted else None
    best = sum(wanted == found for wanted, found in served_best(probes, rules).items())
    label = f"at cost weights {weights[0]:g} and {weights[1]:g}, each chosen on the other half"
    return [
        at_least(f"expected accuracy minus strongest's, points, {label}", points, WORLD_POINTS),
        at_most(f"cost over strongest's, {label}", share, WORLD_SHARE),
        at_least(f"share of {probes.tempted} price swaps followed", followed, 0.99),
        at_most("Spearman of cost and its weight", spearman(list(probes.swept), costs), -0.95),
        at_least("profiles served best by themselves", best, len(PROFILES)),
    ]


def served_best(probes: Probes, rules: Contract) -> dict[str, str]:
    """By profile: the one whose runs were worth most by its weights."""
    return {
        wanted: max(probes.profiles, key=lambda ran: mean_utility(probes.profiles[ran], _profile(wanted), rules))
        for wanted in PROFILES
    }


def mean_utility(row: Measured, weights: dict[str, float] | Sequence[dict[str, float]], rules: Contract) -> float:
    """Of a row with chances; weights of all runs, or of each."""
    runs = row.served or ()
    each = [weights] * len(runs) if isinstance(weights, dict) else weights
    found = [
        utility_of(wanted, float(chance), one.cost_usd, one.latency_ms, one.least_privacy, rules)
        for wanted, chance, one in zip(each, _chances(row), runs, strict=True)
    ]
    return float(np.mean(found))


Swept = dict[float, Measured]


def at_chosen_weights(swept: Swept, strongest: Measured) -> tuple[float, float, tuple[float, float]]:
    """Points and share over all tasks: each half at the cheapest weight that is good enough on the other."""
    count = len(next(iter(swept.values())).usd)
    halves = slice(0, count // 2), slice(count // 2, count)
    weights = _chosen(swept, strongest, halves[1]), _chosen(swept, strongest, halves[0])
    parts = [_beside(swept[cost], strongest, half) for cost, half in zip(weights, halves, strict=True)]
    points, usd, base_usd = (np.concatenate([part[at] for part in parts]) for at in range(3))
    return float(points.mean()), float(usd.mean() / base_usd.mean()), weights


def _chosen(swept: Swept, strongest: Measured, part: slice) -> float:
    points = {cost: _beside(row, strongest, part)[0].mean() for cost, row in swept.items()}
    good = [cost for cost in swept if points[cost] >= WORLD_POINTS]
    return (
        min(good, key=lambda cost: swept[cost].usd[part].mean()) if good else max(points, key=lambda one: points[one])
    )


def _beside(row: Measured, strongest: Measured, part: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each task in the part: points above the strongest's by chance, not by luck; its cost, and the strongest's."""
    return 100 * (_chances(row)[part] - _chances(strongest)[part]), row.usd[part], strongest.usd[part]


def sweep_table(swept: Swept, strongest: Measured) -> dict[str, list[float]]:
    """By cost weight: points of accuracy beside always-strongest, luck aside, and share of its cost."""
    table = {}
    for cost, row in swept.items():
        points, usd, base_usd = _beside(row, strongest, slice(0, len(row.usd)))
        table[f"{cost:g}"] = [round(float(points.mean()), 2), round(float(usd.mean() / base_usd.mean()), 4)]
    return table


def _chances(row: Measured) -> np.ndarray:
    return np.zeros(0) if row.chances is None else row.chances


def _swaps(gateway: Gateway, world: World, tasks: Sequence[int], rules: Contract) -> tuple[int, int]:
    """Prices of the dearest and the cheapest answerer are exchanged.

    Counted are the tasks where the policy's choice was the best one and would now lose by it; followed are those where
    it goes for something that is worth more than staying. A policy that does not look at prices follows none.
    """
    tempted = followed = 0
    for task in (one for one in tasks if not world.scenario.tasks[one].limits):
        before, after = world.episodes[task], world.swapped[task]
        ids = [[slot.id for slot in episode.slots] for episode in (before, after)]
        worth_before, worth_after = first_utilities(before, ids[0], rules), first_utilities(after, ids[1], rules)
        old = gateway.decide(task, ids[0])
        stays = (old[0], dict(zip(*ids, strict=True))[old[1]])
        was_best = worth_before[old] >= max(worth_before.values()) - AS_GOOD
        if not was_best or max(worth_after.values()) - worth_after[stays] < LOSS:
            continue
        tempted += 1
        followed += worth_after[gateway.decide(task, ids[1])] > worth_after[stays]
    return tempted, followed


def probe_table(probes: Probes, rules: Contract) -> dict[str, Any]:
    """Mean utility: by the weights of the row's profile, of the runs with the column's."""
    return {
        "utility of profile (row) as run with (column)": {
            wanted: {ran: round(mean_utility(row, _profile(wanted), rules), 3) for ran, row in probes.profiles.items()}
            for wanted in PROFILES
        },
    }


def balanced(cost: float) -> dict[str, float]:
    return {"quality": 0.5, "cost": cost, "latency": 0.0, "privacy": 0.0}


def _profile(name: str) -> dict[str, float]:
    return dict(zip(AXES, PROFILES[name], strict=True))
