"""From beliefs about tools to choices, and the best that anybody could do: the same search with true beliefs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..contract.agreement import Number, ProblemPrior
from ..contract.expected_utility import (
    QUALITY_SCALE,
    MadeAttempt,
    Outlook,
    SearchState,
    UtilityOption,
    expected_utility,
)
from ..contract.load import Contract
from .episode import COINCIDENCE, Episode, Run
from .roster import LEVELS, NAMES, PRIVACY_CLASSES, WorldSlot


@dataclass(frozen=True)
class Beliefs:
    """Of one turn: chances [slots][levels] of answerers before preparation, gains [slots] of helpers."""

    chances: Sequence[Sequence[Number]]
    gains: Sequence[Number]


Believe = Callable[[Run], Beliefs]


def true_beliefs(run: Run) -> Beliefs:
    """What the generative model knows before the dice fall: skill and domain, not level nor luck."""
    episode = run.episode
    chances = np.minimum(1 - 1e-6, episode.chances * run.gain)
    return Beliefs(chances.tolist(), [_true_gain(run, slot) for slot in episode.slots])


def _true_gain(run: Run, slot: WorldSlot) -> float:
    """Domains of recorded episodes are not the world's: there nobody helps."""
    if slot.role == "answer" or (slot.role == "enhance_reasoning" and run.evidence["codeRuns"]):
        return 1.0
    return float(slot.gains[NAMES.index(run.episode.domain)])


def outlooks(run: Run, choices: list[dict[str, Any]], beliefs: Beliefs, contract: Contract) -> list[Outlook]:
    """Expected utility of each open choice under the beliefs; exact prices, waits and weights."""
    episode = run.episode
    numbers = {slot.id: number for number, slot in enumerate(episode.slots)}
    options = [_option(episode, choice, beliefs) for choice in choices]
    made = [
        MadeAttempt(
            attempt["id"],
            attempt["slot"],
            beliefs.chances[numbers[attempt["slot"]]],
            attempt.get("agreesWith"),
            episode.comparable,
        )
        for attempt in run.evidence["attempts"]
    ]
    left = contract["budgets"]["attempts"] - len(made)
    prior = ProblemPrior([1 / len(LEVELS)] * len(LEVELS), COINCIDENCE)
    state = SearchState(prior, made, float(episode.comparable), run.turns_left, left)
    return expected_utility(options, state, episode.weights, contract["tilt"])


def _option(episode: Episode, choice: dict[str, Any], beliefs: Beliefs) -> UtilityOption:
    if choice["delivers"]:
        return UtilityOption(choice["id"], "deliver", 0.0, 0.0, 1.0)
    number = next(at for at, slot in enumerate(episode.slots) if slot.id == choice["slot"])
    slot = episode.slots[number]
    price = (slot.cost_usd, slot.latency_ms, PRIVACY_CLASSES.index(slot.privacy) / 4)
    if choice["role"] in ("answer", "attempt"):
        return UtilityOption(choice["id"], choice["role"], *price, chances=beliefs.chances[number])
    return UtilityOption(choice["id"], "prepare", *price, gain=beliefs.gains[number])


def realised_utility(run: Run, contract: Contract) -> float:
    """What the finished run was worth to its user, in the units of the search."""
    return utility_of(run.episode.weights, run.correct, run.cost_usd, run.latency_ms, run.privacy, contract)


def utility_of(
    weights: dict[str, float], right: float, cost_usd: float, latency_ms: float, privacy: float, contract: Contract
) -> float:
    """`right`: whether, or the chance that; `privacy`: the least class that saw the request, 0 to 1."""
    scales = contract["tilt"]
    money = -weights["cost"] * math.log1p(cost_usd / scales["costUsd"])
    time = -weights["latency"] * math.log1p(latency_ms / scales["latencyMs"])
    return QUALITY_SCALE * weights["quality"] * right + scales["lambda"] * (money + time + weights["privacy"] * privacy)


def chance_of(episode: Episode, path: Sequence[tuple[str, str]], contract: Contract) -> float:
    """That a run along this path ends right, before luck falls on its last step; of attempts counts what they showed.

    Far less of it is luck than of the answer itself, and its mean is the same.

    @raises ValueError for a step that the rules do not allow.
    """
    # Whoever fails is named in `down`: nothing here is left to this generator.
    run = Run(replace(episode, failures=0.0), contract, np.random.default_rng(0))
    for step in path[:-1]:
        choices = run.choices()
        run.step(choices[_place(choices, step)])
    choices = run.choices()
    return float(outlooks(run, choices, true_beliefs(run), contract)[_place(choices, path[-1])].p_right)


def _place(choices: list[dict[str, Any]], step: tuple[str, str]) -> int:
    for at, choice in enumerate(choices):
        if (choice["role"], choice["id"]) == step:
            return at
    raise ValueError(f"{step[0]} by {step[1]} is not open here")


def best_run(episode: Episode, contract: Contract, rng: np.random.Generator, believe: Believe = true_beliefs) -> Run:
    """The greedy walk of a believer; with true beliefs the best feasible policy at the depth of the search."""
    run = Run(episode, contract, rng)
    while not run.done:
        choices = run.choices()
        utilities = [float(one.utility) for one in outlooks(run, choices, believe(run), contract)]
        run.step(choices[int(np.argmax(utilities))])
    return run
