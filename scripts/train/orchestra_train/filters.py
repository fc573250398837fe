"""Which groups and turns are trained on: the paper's three filters, and one that looks at each component."""

from dataclasses import dataclass

import numpy as np

from .reward import FLOORS, Array, Group, Preference, components, paper_rewards

LEAST_DEVIATION = 0.1


@dataclass(frozen=True)
class Kept:
    """`rollouts` [G] says which may be trained on; `reason` why a whole group was dropped."""

    rollouts: Array
    reason: str | None


def paper_filter(group: Group, preference: Preference, answered: Array) -> Kept:
    """Homogeneous groups, malformed rollouts and rollouts without an answer go. answered: [G]"""
    none = np.zeros(len(group.outcome), bool)
    if len(group.outcome) < 2 or paper_rewards(group, preference).std(ddof=1) <= LEAST_DEVIATION:
        return Kept(none, "homogeneous")
    kept = ~group.malformed & answered
    return Kept(kept, None) if kept.any() else Kept(none, "nothing valid")


def component_filter(group: Group, preference: Preference) -> Kept:
    """A group goes only if every component that has weight is under its floor; malformed rollouts stay."""
    right = group.outcome > 0
    tells = 0 < right.sum() < len(right) and preference.outcome > 0
    if right.sum() >= 2:
        weights = np.array([preference.cost, preference.latency, preference.liking])
        deviations = components(group, preference)[right].std(0, ddof=1)
        tells = tells or bool(np.any((weights > 0) & (deviations > FLOORS)))
    return Kept(np.full(len(right), tells), None if tells else "no component differs")
