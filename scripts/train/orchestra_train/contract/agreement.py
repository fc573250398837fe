"""Bayes' rule over attempts. Numbers may be floats or `traced`: the arithmetic is the same, and differentiable."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# A float, or one that remembers what it was computed from where training needs its gradient.
Number = Any
# Chance of a right answer at each level of difficulty, the levels in one order for every slot.
Chances = Sequence[Number]


@dataclass(frozen=True)
class ProblemPrior:
    """Chance of each level of difficulty, and that two wrong answers are equal."""

    levels: Sequence[Number]
    coincidence: Number


@dataclass(frozen=True)
class Agreement:
    """How likely it was that the attempts agree just like this; the levels and each group's chance after it."""

    likelihood: Number
    levels: list[Number]
    right: list[Number]


def weigh_agreement(groups: Sequence[Sequence[Chances]], prior: ProblemPrior) -> Agreement:
    """Groups of equal answers: at most one is right; at a known level attempts err independently."""
    sizes = [len(group) for group in groups]
    # -1: nobody is right.
    hypotheses = [
        (right, _coincidences([size for index, size in enumerate(sizes) if index != right], prior.coincidence))
        for right in range(-1, len(groups))
    ]
    joint = [
        [weight * spelling * _chance(groups, right, level) for right, spelling in hypotheses]
        for level, weight in enumerate(prior.levels)
    ]
    by_level = [sum(row) for row in joint]
    likelihood = sum(by_level)
    return Agreement(
        likelihood,
        [value / likelihood for value in by_level],
        [sum(row[group + 1] for row in joint) / likelihood for group in range(len(groups))],
    )


def _chance(groups: Sequence[Sequence[Chances]], right: int, level: int) -> Number:
    """Chance that exactly the group `right` is right at this level."""
    return math.prod(
        chances[level] if index == right else 1 - chances[level]
        for index, group in enumerate(groups)
        for chances in group
    )


def _coincidences(sizes: list[int], coincidence: Number) -> Number:
    return coincidence ** (sum(sizes) - len(sizes)) * (1 - coincidence) ** max(0, len(sizes) - 1)
