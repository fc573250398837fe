"""The simulated world as a scenario: unseen wordings, a few fresh rosters, each also with two prices swapped."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..contract.load import Contract
from ..world.decide import outlooks, true_beliefs
from ..world.episode import PROFILES, Episode, Run, fresh_episode
from ..world.roster import WorldShape, WorldSlot, fresh_roster
from .scenario import PRIVACY_CLASSES, Reply, Scenario, Slot, Task

# Helpers need a sandbox and documents, failures a second run of luck: neither can be replayed on loopback.
SHAPE = WorldShape(slots=(3, 8), helpers=False, failures=0.0, limited=0.0)
TASKS_A_ROSTER = 25
WORLD_SEED = 20_000


@dataclass(frozen=True)
class World:
    """`episodes` one a task, `swapped` the same with the prices of the dearest and the cheapest slot exchanged."""

    scenario: Scenario
    episodes: list[Episode]
    swapped: list[Episode]


def world_scenario(count: int, seed: int = 0, shape: WorldShape = SHAPE, wishes: str = "weights") -> World:
    """`wishes`: preferences as weights, or in words where the episode has words for them."""
    rng = np.random.default_rng([WORLD_SEED, seed])
    episodes: list[Episode] = []
    swapped: list[Episode] = []
    for number in range(-(-count // TASKS_A_ROSTER)):
        roster = [_named(slot, f"answer-{number * 100 + at}") for at, slot in enumerate(fresh_roster(rng, shape, True))]
        turned = [_named(slot, f"answer-{number * 100 + 50 + at}") for at, slot in enumerate(_swap(roster))]
        problems: set[str] = set()
        while len(problems) < min(TASKS_A_ROSTER, count - number * TASKS_A_ROSTER):
            episode = fresh_episode(rng, shape, unseen=True, roster=roster)
            if episode.problem not in problems:
                problems.add(episode.problem)
                episodes.append(episode)
                swapped.append(replace(episode, slots=tuple(turned)))
    limits = [_limits(rng, episode) for episode in episodes]
    pairs = list(zip(episodes, swapped, strict=True))
    scenario = Scenario(
        name="world",
        slots={slot.id: _slot(slot) for pair in pairs for episode in pair for slot in episode.slots},
        tasks=[_task(episode, limit, wishes) for episode, limit in zip(episodes, limits, strict=True)],
        reply=lambda task, slot: _reply(pairs[task], slot),
    )
    return World(scenario, episodes, swapped)


def _named(slot: WorldSlot, slot_id: str) -> WorldSlot:
    # To the digit that a price is written with, so that all costs are exact.
    return replace(slot, id=slot_id, cost_usd=round(slot.cost_usd, 9), latency_ms=float(round(slot.latency_ms)))


def _swap(roster: list[WorldSlot]) -> list[WorldSlot]:
    costs = [slot.cost_usd for slot in roster]
    low, high = int(np.argmin(costs)), int(np.argmax(costs))
    costs[low], costs[high] = costs[high], costs[low]
    return [replace(slot, cost_usd=cost) for slot, cost in zip(roster, costs, strict=True)]


def _limits(rng: np.random.Generator, episode: Episode) -> dict[str, Any]:
    """One task in five is private, one in five has little money; what each leaves is never nothing."""
    draw = rng.random()
    if draw < 0.2:
        classes = sorted(PRIVACY_CLASSES.index(slot.privacy) for slot in episode.slots)
        return {"privacy": PRIVACY_CLASSES[classes[len(classes) // 2]]}
    if draw < 0.4:
        costs = sorted(slot.cost_usd for slot in episode.slots)
        return {"max_cost_usd": round(1.5 * costs[len(costs) // 2], 9)}
    return {}


def _task(episode: Episode, limits: dict[str, Any], wishes: str) -> Task:
    words = episode.instruction if wishes == "words" else ""
    return Task(episode.problem, tuple(slot.id for slot in episode.slots), episode.weights, words, limits)


def _slot(slot: WorldSlot) -> Slot:
    return Slot(slot.id, slot.quality, {"per_call": slot.cost_usd}, int(slot.latency_ms), slot.privacy)


def _reply(pair: tuple[Episode, Episode], slot_id: str) -> Reply:
    for episode in pair:
        for number, slot in enumerate(episode.slots):
            if slot.id == slot_id:
                right = bool(episode.luck[number] < episode.chances[number, episode.level])
                return Reply(episode.answers[number][0 if right else 1], right, 100, 100)
    raise KeyError(slot_id)


def first_utilities(episode: Episode, allowed: list[str], contract: Contract) -> dict[tuple[str, str], float]:
    """What each first choice is worth under true beliefs, by role and slot."""
    run = Run(episode.among(allowed), contract, np.random.default_rng(0))
    choices = run.choices()
    found = outlooks(run, choices, true_beliefs(run), contract)
    return {(choice["role"], choice["slot"]): float(one.utility) for choice, one in zip(choices, found, strict=True)}


def profile_weights(name: str) -> dict[str, float]:
    return dict(zip(("quality", "cost", "latency", "privacy"), PROFILES[name], strict=True))
