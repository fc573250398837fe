"""Does a reader choose as a perfect reader of the same cards would? Unseen rosters, wordings, tasks and wishes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import spearmanr

from ..contract.beliefs import expected_of, spread_over_levels, weights_of
from ..contract.evidence import Evidence
from ..contract.load import Contract
from ..contract.phrase import AXES
from ..world.decide import Beliefs, outlooks
from ..world.episode import PROFILES, Episode, Run
from ..world.roster import LEVELS, PRIVACY_CLASSES, WorldSlot
from .problems import problem_source
from .reader import Reader
from .rosters import Reading, ReadingShape, fresh_reading
from .wishes import Wish, fresh_wish
from .wordings import Rng, choose

EVALUATION_SEED = 20_000
# A wish is read in half of the episodes; in the others the weights are given.
WISHING = 0.5
CLOSE = 0.05


@dataclass(frozen=True)
class Choosing:
    """One roster to choose from: what stands in the prompts, and prices, waits and privacy that never do."""

    reading: Reading
    wish: Wish | None
    weights: dict[str, float]
    costs_usd: np.ndarray
    latencies_ms: np.ndarray
    privacy: tuple[str, ...]


def fresh_choosing(rng: Rng, contract: Contract, subjects: list[str] | None = None, unseen: bool = True) -> Choosing:
    reading = fresh_reading(rng, problem_source(unseen), int(rng.integers(3, 9)), ReadingShape(), unseen, subjects)
    wish = fresh_wish(rng, unseen) if rng.random() < WISHING else None
    profile = PROFILES[list(PROFILES)[rng.integers(len(PROFILES))]]
    weights = dict(zip(AXES, profile, strict=True))
    if wish:
        weights = weights_of([contract["weights"][grade] for grade in wish.grades])
    skill = np.array([tool.value - 0.5 if tool.role == "answer" else -0.5 for tool in reading.tools])
    count = len(reading.tools)
    costs = 0.002 * np.exp(1.5 * skill + rng.normal(0, 1.1, count))
    latencies = 4000 * np.exp(0.6 * skill + rng.normal(0, 0.7, count))
    privacy = tuple(choose(rng, PRIVACY_CLASSES) for _ in reading.tools)
    return Choosing(reading, wish, weights, costs, latencies, privacy)


def utilities_of(choosing: Choosing, values: Sequence[float], weights: dict[str, float], rules: Contract) -> np.ndarray:
    """Of every open first choice; `values` are chances of answerers and gains of helpers."""
    tools = choosing.reading.tools
    nothing = np.zeros(1)
    facts = zip(tools, choosing.costs_usd, choosing.latencies_ms, choosing.privacy, strict=True)
    slots = tuple(
        WorldSlot(f"{tool.role}-{n}", tool.role, tool.quality, nothing, nothing, float(cost), float(wait), privacy)
        for n, (tool, cost, wait, privacy) in enumerate(facts)
    )
    answers = tuple(("", "") for _ in slots)
    unknown = np.full((len(slots), len(LEVELS)), 0.5)
    episode = Episode("", "", 0, slots, unknown, unknown[:, 0], answers, weights, "", 0.0)
    evidence: Evidence = choosing.reading.evidence
    run = Run(episode, rules, np.random.default_rng(0), evidence=evidence)
    chances = [
        spread_over_levels(value if tool.role == "answer" else 0.5, list(LEVELS))
        for tool, value in zip(tools, values, strict=True)
    ]
    gains = [1.0 if tool.role == "answer" else value for tool, value in zip(tools, values, strict=True)]
    found = outlooks(run, run.choices(), Beliefs(chances, gains), rules)
    return np.array([float(one.utility) for one in found])


@torch.no_grad()
def evaluate_choices(
    reader: Reader, rules: Contract, episodes: int, subjects: list[str] | None = None, unseen: bool = True
) -> dict[str, float]:
    """Agreement with the perfect reader's first choice, utility given away, and how well values and wishes are read."""
    contract = reader.contract
    same, lost, lost_flat, right, read, told, wishes = [], [], [], [], [], [], []
    for number in range(episodes):
        choosing = fresh_choosing(np.random.default_rng([EVALUATION_SEED, number]), contract, subjects, unseen)
        tools = choosing.reading.tools
        stops = [contract["chances"] if tool.role == "answer" else contract["gains"] for tool in tools]
        [grades] = reader.grades([reader.tree(choosing.reading)])
        values = [float(expected_of(row, stop)) for row, stop in zip(grades.exp().tolist(), stops, strict=True)]
        weights = choosing.weights
        if choosing.wish:
            [wished] = reader.grades([reader.tree(choosing.wish)])
            weights = weights_of([expected_of(row, contract["weights"]) for row in wished.exp().tolist()])
            wishes += (wished.argmax(-1).numpy() == np.array(choosing.wish.grades)).tolist()
        truth = [tool.value for tool in tools]
        best = utilities_of(choosing, truth, choosing.weights, rules)
        chosen = int(np.argmax(utilities_of(choosing, values, weights, rules)))
        blind = [0.5 if tool.role == "answer" else 1.0 for tool in tools]
        flat = int(np.argmax(utilities_of(choosing, blind, choosing.weights, rules)))
        same.append(chosen == int(np.argmax(best)))
        lost.append(best.max() - best[chosen])
        lost_flat.append(best.max() - best[flat])
        for tool, row, value, stop in zip(tools, grades, values, stops, strict=True):
            right.append(abs(stop[int(row.argmax())] - tool.value) <= min(abs(one - tool.value) for one in stop) + 1e-9)
            if tool.role == "answer":
                read.append(value)
                told.append(tool.value)
    return {
        "episodes": episodes,
        "same_choice": round(float(np.mean(same)), 4),
        "within_0.05": round(float(np.mean(np.array(lost) <= CLOSE)), 4),
        "regret": round(float(np.mean(lost)), 4),
        "regret_unread": round(float(np.mean(lost_flat)), 4),
        "grades_right": round(float(np.mean(right)), 4),
        "wish_grades_right": round(float(np.mean(wishes)), 4),
        "spearman": round(float(spearmanr(read, told).statistic), 4),
    }
