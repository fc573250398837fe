"""Figures of a row: means, paired intervals, adherence, and what the frontier of a weight sweep says."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .gateway import Outcome
from .scenario import PRIVACY_CLASSES, Scenario

BOOTSTRAPS = 2000
# Units of adherence: the reference's mean is this many, near the cents and minutes of the paper's tables. Below one
# unit nothing is gained any more.
REFERENCE_UNITS = 10.0


@dataclass(frozen=True)
class Measured:
    """One row over the same tasks as all others. Everything [tasks]; `served` where the gateway made it.

    `chances`, where a world is known: that the answer is right, luck aside.
    """

    right: np.ndarray
    usd: np.ndarray
    latency_ms: np.ndarray | None = None
    calls: Sequence[tuple[str, ...]] | None = None
    served: Sequence[Outcome] | None = None
    chances: np.ndarray | None = None


def measured_from(outcomes: Sequence[Outcome]) -> Measured:
    return Measured(
        right=np.array([float(one.right) for one in outcomes]),
        usd=np.array([one.cost_usd for one in outcomes]),
        latency_ms=np.array([one.latency_ms for one in outcomes]),
        calls=[one.calls for one in outcomes],
        served=outcomes,
    )


def paired_interval(differences: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """95 % of the mean of paired differences, by bootstrap over tasks."""
    rng = np.random.default_rng(seed)
    means = [differences[rng.integers(0, len(differences), len(differences))].mean() for _ in range(BOOTSTRAPS)]
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def adherence(scenario: Scenario, tasks: Sequence[int], row: Measured, reference: Measured) -> float | None:
    """Preference adherence as ToolOrchestra defines it (appendix L), with `reference` as the fixed baseline.

    Nothing for a wrong run; for a right one the preference's weights times: outcome and counts of calls relative to
    max(1, the reference's), the reference's cost and latency relative to max(1, one's own). The paper names no units:
    here the mean of the reference is REFERENCE_UNITS. Slots are preferred by where they run, as strongly as privacy.
    """
    if row.latency_ms is None or row.calls is None or reference.latency_ms is None or reference.calls is None:
        return None
    cost_unit = reference.usd.mean() / REFERENCE_UNITS
    latency_unit = reference.latency_ms.mean() / REFERENCE_UNITS
    total = 0.0
    for at, number in enumerate(tasks):
        if not row.right[at]:
            continue
        weights = scenario.tasks[number].weights
        own, base = row.calls[at], reference.calls[at]
        counts = sum(_liking(scenario, slot) * own.count(slot) / max(1, base.count(slot)) for slot in set(own))
        cost = reference.usd[at] / cost_unit / max(1.0, row.usd[at] / cost_unit)
        latency = reference.latency_ms[at] / latency_unit / max(1.0, row.latency_ms[at] / latency_unit)
        total += weights["quality"] + weights["privacy"] * counts
        total += weights["cost"] * cost + weights["latency"] * latency
    return total / len(tasks)


def _liking(scenario: Scenario, slot: str) -> float:
    return PRIVACY_CLASSES.index(scenario.slots[slot].privacy) / 4


def cost_at_accuracy(points: Sequence[tuple[float, float]], accuracy: float) -> float | None:
    """Least mean cost of a mixture of settings that reaches an accuracy. points: (accuracy, usd) of each setting."""
    if not points or max(found for found, _ in points) < accuracy:
        return None
    best = min(usd for found, usd in points if found >= accuracy)
    below = [point for point in points if point[0] < accuracy]
    above = [point for point in points if point[0] >= accuracy]
    for low, low_usd in below:
        for high, high_usd in above:
            share = (accuracy - low) / (high - low)
            best = min(best, low_usd + share * (high_usd - low_usd))
    return best


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(left, right).statistic)
