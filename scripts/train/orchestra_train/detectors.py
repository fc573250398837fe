"""Degenerate strategies, looked for at every step: each figure is a share, and a rising one is a warning."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class RunTrace:
    """One rollout. `calls` are tool numbers in order, failed ones too; `preparations` of them prepared.

    `answered_by`: the tool whose words were given as the answer, written at once or as an attempt; None for no answer.
    """

    calls: tuple[int, ...]
    answered_by: int | None
    preparations: int
    correct: bool


@dataclass(frozen=True)
class GroupTrace:
    """Rollouts of one example; who among its answer tools is strongest and who cheapest; which tools are preferred."""

    runs: Sequence[RunTrace]
    strongest: int
    cheapest: int
    preferred: frozenset[int]


def degenerate_shares(groups: Sequence[GroupTrace]) -> dict[str, float]:
    """Premature answers, useless preferred calls, always-strongest, always-cheapest, and the entropy of answers."""
    runs = [(group, run) for group in groups for run in group.runs]
    answers = [run.answered_by for _, run in runs if run.answered_by is not None]
    preferred = [useless for group, run in runs for useless in _preferred_calls(group, run)]
    return {
        "premature_answers": _mean([_premature(group, run) for group, run in runs]),
        "useless_preferred_calls": _mean(preferred),
        "always_strongest": _mean([run.answered_by == group.strongest for group, run in runs]),
        "always_cheapest": _mean([run.answered_by == group.cheapest for group, run in runs]),
        "answer_entropy": _entropy(answers),
    }


def _premature(group: GroupTrace, run: RunTrace) -> bool:
    """Wrong at once, where a rollout of the same group that prepared was right."""
    return not run.correct and not run.preparations and any(o.correct and o.preparations for o in group.runs)


def _preferred_calls(group: GroupTrace, run: RunTrace) -> list[bool]:
    """For each call of a preferred tool: it was made before, or nothing came of the run."""
    return [
        not run.correct or tool in run.calls[:place] for place, tool in enumerate(run.calls) if tool in group.preferred
    ]


def _mean(values: Sequence[bool]) -> float:
    return float(np.mean(values)) if values else 0.0


def _entropy(answers: Sequence[int]) -> float:
    """In nats."""
    if not answers:
        return 0.0
    shares = np.unique(answers, return_counts=True)[1] / len(answers)
    return float(-(shares * np.log(shares)).sum())
