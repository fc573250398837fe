"""Greedy runs on episodes that training never draws, all in step, and what they came to."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from .contract.load import Contract
from .policy import Policy, Turn
from .world.decide import outlooks, realised_utility, true_beliefs
from .world.episode import Run, fresh_episode
from .world.roster import WorldShape

EXAM_SEED = 10_000
# For each turn the number of a choice.
Chooser = Callable[[Sequence[Turn]], list[int]]


def examine(choose: Chooser, rules: Contract, shape: WorldShape, episodes: int) -> dict[str, float]:
    """Means over episodes; regret is what the first choice gave away by the known world, which no luck blurs."""
    runs = [_fresh_run(number, rules, shape) for number in range(episodes)]
    regrets: list[float] = []
    going = runs
    while going:
        turns = [Turn(run, run.choices()) for run in going]
        numbers = choose(turns)
        if going is runs:
            utilities = [_true_utilities(turn, rules) for turn in turns]
            regrets = [max(one) - one[number] for one, number in zip(utilities, numbers, strict=True)]
        for turn, number in zip(turns, numbers, strict=True):
            turn.run.step(turn.choices[number])
        going = [run for run in going if not run.done]
    return {
        "accuracy": round(float(np.mean([run.correct for run in runs])), 4),
        "cost_usd": round(float(np.mean([run.cost_usd for run in runs])), 6),
        "utility": round(float(np.mean([realised_utility(run, rules) for run in runs])), 4),
        "regret": round(float(np.mean(regrets)), 4),
    }


def _fresh_run(number: int, rules: Contract, shape: WorldShape) -> Run:
    rng = np.random.default_rng([EXAM_SEED, number])
    return Run(fresh_episode(rng, shape), rules, rng)


def greedy(policy: Policy) -> Chooser:
    @torch.no_grad()
    def choose(turns: Sequence[Turn]) -> list[int]:
        return [int(scores.argmax()) for scores in policy.log_probabilities(turns)]

    return choose


def best_feasible(rules: Contract) -> Chooser:
    return lambda turns: [int(np.argmax(_true_utilities(turn, rules))) for turn in turns]


def always_strongest(turns: Sequence[Turn]) -> list[int]:
    """The answerer that knows most, whatever it costs."""
    return [_strongest(turn) for turn in turns]


def _strongest(turn: Turn) -> int:
    slots = turn.run.episode.slots
    ability = [
        slots[turn.run.slot_number(choice)].skills.mean() if choice["role"] == "answer" else -np.inf
        for choice in turn.choices
    ]
    return int(np.argmax(ability))


def _true_utilities(turn: Turn, rules: Contract) -> list[float]:
    return [float(one.utility) for one in outlooks(turn.run, turn.choices, true_beliefs(turn.run), rules)]
