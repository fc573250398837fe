"""Rewards and advantages of a group: rollouts of one example under one preference.

`paper` is the formula of ToolOrchestra (not its released code, which pays for expense), `sum` a plain weighted sum,
`gdpo` normalises each component on its own, `gated_gdpo` (the default) lets cost, latency and liking speak only among
correct rollouts, so that being cheap and wrong never pays. `utility` is what the gateway's own search maximises: where
a policy acts through that search (`beliefs-1`), another trade-off can only be followed by bending its beliefs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from .contract.expected_utility import QUALITY_SCALE

Array = np.ndarray
LEAST_OUTCOME_SHARE = 0.5
COMPONENT_CLIP = 1.5
ADVANTAGE_CLIP = 3.0
# Spending and waiting count by their logarithm; below these amounts differences fade.
COST_SCALE_USD = 0.001
LATENCY_SCALE_S = 1.0
# A tenth in log money, a tenth in log time, one part in twenty of the tools used.
FLOORS = np.array([0.1, 0.1, 0.05])
# What the contract's tilt gives to soft limits beside quality; a test holds it to the contract.
SOFT_LIMIT_SCALE = 2.0


@dataclass(frozen=True)
class Group:
    """Rollouts of one example. `outcome`, `cost_usd`, `latency_s`, `malformed`: [G]; `calls`: [G, tools]."""

    outcome: Array
    cost_usd: Array
    latency_s: Array
    calls: Array
    malformed: Array

    def __post_init__(self) -> None:
        if np.any((self.outcome > 0) & self.malformed):
            raise ValueError("a malformed rollout has no outcome")


@dataclass(frozen=True)
class Preference:
    """Weights of one example, none negative; `tools` [tools] from 1 (preferred) to -1 (to be avoided).

    `liking` is how strongly tools are preferred: without it `tools` says nothing.
    """

    outcome: float
    cost: float
    latency: float
    liking: float
    tools: Array


def paper_rewards(group: Group, preference: Preference) -> Array:
    """Min-max over all rollouts of the group, dot product with the preference, gated by the outcome. [G]"""
    measured = np.column_stack([group.calls, group.outcome, -group.cost_usd, -group.latency_s]).astype(float)
    least, span = measured.min(0), np.ptp(measured, 0)
    scaled = np.divide(measured - least, span, out=np.zeros_like(measured), where=span > 0)
    liked = preference.liking * preference.tools
    vector = np.append(liked, [preference.outcome, preference.cost, preference.latency])
    return np.where(group.outcome > 0, scaled @ vector, 0.0)


def sum_rewards(group: Group, preference: Preference) -> Array:
    """Weighted sum of outcome and components, nothing normalised. [G]"""
    return group.outcome * preference.outcome + components(group, preference) @ _component_weights(preference)


def utility_scores(group: Group, preference: Preference) -> Array:
    """Distance of each rollout's utility from the group's mean; not scaled, so that close calls weigh little. [G]"""
    # As in the search: of all tools used the least liked one counts, from 0 to 1.
    least_liked = (np.where(group.calls > 0, preference.tools, 1.0).min(1, initial=1.0) + 1) / 2
    parts = np.column_stack([components(group, preference)[:, :2], least_liked])
    limits = SOFT_LIMIT_SCALE * (parts @ _component_weights(preference))
    utility = QUALITY_SCALE * preference.outcome * group.outcome + limits
    return utility - utility.mean()


def components(group: Group, preference: Preference) -> Array:
    """Cheapness, quickness, liking; larger is better. [G, 3]"""
    used = group.calls > 0
    # Whether a tool was used, not how often: repeated calls must not pay.
    liking = used @ preference.tools / np.maximum(1, used.sum(1))
    return np.column_stack(
        [-np.log1p(group.cost_usd / COST_SCALE_USD), -np.log1p(group.latency_s / LATENCY_SCALE_S), liking]
    )


def standardise(values: Array, floor: float = 1e-6) -> Array:
    """Distance from the mean in sample deviations; zero where all are equal. [G] -> [G]"""
    if len(values) < 2:
        return np.zeros(len(values))
    return (values - values.mean()) / max(values.std(ddof=1), floor)


def gdpo_scores(group: Group, preference: Preference) -> Array:
    """Each component standardised over the whole group, then the weighted sum. [G]"""
    parts = components(group, preference)
    scores = preference.outcome * standardise(group.outcome)
    return scores + sum(w * standardise(parts[:, k]) for k, w in enumerate(_component_weights(preference)))


def gated_scores(outcome: Array, parts: Array, weights: Array, floors: Array) -> Array:
    """Outcome over the group, components among the correct only; a wrong rollout never outranks a right one.

    outcome: [G]; parts: [G, K], larger is better; weights: [1 + K], outcome first; floors: [K] -> [G]
    """
    share = outcome_share(weights)
    right = outcome > 0
    base = share[0] * standardise(outcome)
    extra = np.zeros(len(outcome))
    if right.sum() >= 2:
        correct = parts[right]
        spread = np.maximum(correct.std(0, ddof=1), floors)
        extra[right] = np.clip((correct - correct.mean(0)) / spread, -COMPONENT_CLIP, COMPONENT_CLIP) @ share[1:]
    if right.any() and not right.all():
        gap = base[right].min() - base[~right].max()
        if -extra.min() >= gap:
            extra *= 0.99 * gap / -extra.min()
    return base + extra


def outcome_share(weights: Array) -> Array:
    """Weights that sum to 1, with at least half for the outcome, which comes first. [1 + K]"""
    total = weights.sum()
    share = weights / total if total > 0 else np.eye(len(weights))[0]
    if share[0] >= LEAST_OUTCOME_SHARE:
        return share
    rest = share[1:] * (1 - LEAST_OUTCOME_SHARE) / share[1:].sum()
    return np.append(LEAST_OUTCOME_SHARE, rest)


def _component_weights(preference: Preference) -> Array:
    return np.array([preference.cost, preference.latency, preference.liking])


@dataclass
class RunningSpread:
    """Running deviations that outlive a step: of scores, and of each component. Part of every checkpoint."""

    decay: float = 0.9
    scores: float = 0.0
    parts: Array = field(default_factory=lambda: np.zeros(3))

    def update(self, scores: Array, parts: Array) -> None:
        keep = self.decay if self.scores > 0 else 0.0
        self.scores = keep * self.scores + (1 - keep) * float(scores.std())
        self.parts = keep * self.parts + (1 - keep) * parts.std(0)


def _gated(group: Group, preference: Preference, spread: RunningSpread) -> Array:
    weights = np.append(preference.outcome, _component_weights(preference))
    floors = np.maximum(FLOORS, 0.1 * spread.parts)
    return gated_scores(group.outcome.astype(float), components(group, preference), weights, floors)


_SCORES: dict[str, Callable[[Group, Preference, RunningSpread], Array]] = {
    "paper": lambda group, preference, _: standardise(paper_rewards(group, preference)),
    "sum": lambda group, preference, _: standardise(sum_rewards(group, preference)),
    "gdpo": lambda group, preference, _: gdpo_scores(group, preference),
    "gated_gdpo": _gated,
    "utility": lambda group, preference, _: utility_scores(group, preference),
}
REWARDS = tuple(_SCORES)


def advantages(
    kind: str, groups: Sequence[Group], preferences: Sequence[Preference], spread: RunningSpread
) -> list[Array]:
    """One array [G] a group, clipped. Scores not of unit spread are divided by the batch's running one."""
    scores = [_SCORES[kind](group, preference, spread) for group, preference in zip(groups, preferences, strict=True)]
    parts = [components(group, preference) for group, preference in zip(groups, preferences, strict=True)]
    spread.update(np.concatenate(scores), np.concatenate(parts))
    scale = max(spread.scores, 1e-3) if kind in ("gdpo", "gated_gdpo", "utility") else 1.0
    return [np.clip(score / scale, -ADVANTAGE_CLIP, ADVANTAGE_CLIP) for score in scores]
