"""The simulated world as a scenario: unseen wordings, a few fresh rosters, each also with two prices swapped."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..contract.load import Contract
from ..world.decide import chance_of, outlooks, true_beliefs
from ..world.episode import Episode, Run, finding, fresh_episode
from ..world.roster import NAMES, WHOLE_WORLD, WorldShape, WorldSlot, fresh_roster
from .metrics import Measured
from .scenario import PRIVACY_CLASSES, Reply, Scenario, Slot, Task

# Limits are the gateway's to keep here, so no roster is cut beforehand; who fails is drawn once a task.
SHAPE = replace(WHOLE_WORLD, slots=(3, 8), limited=0.0)
TASKS_A_ROSTER = 10
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
        roster = [_named(slot, number * 100 + at) for at, slot in enumerate(fresh_roster(rng, shape, True))]
        turned = [_named(slot, number * 100 + 50 + at) for at, slot in enumerate(_swap(roster))]
        problems: set[str] = set()
        while len(problems) < min(TASKS_A_ROSTER, count - number * TASKS_A_ROSTER):
            episode = fresh_episode(rng, shape, unseen=True, roster=roster)
            if episode.problem not in problems:
                problems.add(episode.problem)
                down = frozenset(slot.id for slot in roster if rng.random() < shape.failures)
                episodes.append(replace(episode, failures=0.0, down=down))
                swapped.append(replace(episode, slots=tuple(turned)))
    limits = [_limits(rng, episode) for episode in episodes]
    episodes = [_answerable(episode, limit) for episode, limit in zip(episodes, limits, strict=True)]
    pairs = list(zip(episodes, swapped, strict=True))
    scenario = Scenario(
        name="world",
        slots={slot.id: _slot(slot) for pair in pairs for episode in pair for slot in episode.slots},
        tasks=[_task(episode, limit, wishes) for episode, limit in zip(episodes, limits, strict=True)],
        reply=lambda task, slot, helpers: _reply(pairs[task], slot, helpers),
    )
    return World(scenario, episodes, swapped)


def _named(slot: WorldSlot, number: int) -> WorldSlot:
    word = {"answer": "answer", "search": "search", "enhance_reasoning": "reasoner"}[slot.role]
    # To the digit that a price is written with, so that all costs are exact.
    return replace(
        slot, id=f"{word}-{number}", cost_usd=round(slot.cost_usd, 9), latency_ms=float(round(slot.latency_ms))
    )


def _swap(roster: list[WorldSlot]) -> list[WorldSlot]:
    answers = [slot for slot in roster if slot.role == "answer"]
    low, high = (pick(answers, key=lambda slot: slot.cost_usd) for pick in (min, max))
    turned = {low.id: high.cost_usd, high.id: low.cost_usd}
    return [replace(slot, cost_usd=turned.get(slot.id, slot.cost_usd)) for slot in roster]


def _limits(rng: np.random.Generator, episode: Episode) -> dict[str, Any]:
    """One task in five is private, one in five has little money; what each leaves is never nothing."""
    draw, answers = rng.random(), [slot for slot in episode.slots if slot.role == "answer"]
    if draw < 0.2:
        classes = sorted(PRIVACY_CLASSES.index(slot.privacy) for slot in answers)
        return {"privacy": PRIVACY_CLASSES[classes[len(classes) // 2]]}
    if draw < 0.4:
        costs = sorted(slot.cost_usd for slot in answers)
        return {"max_cost_usd": round(1.5 * costs[len(costs) // 2], 9)}
    return {}


def _answerable(episode: Episode, limits: dict[str, Any]) -> Episode:
    """Failures that would leave nobody to answer do not happen: they would tell nothing about a policy."""
    least, most = PRIVACY_CLASSES.index(limits.get("privacy", "any")), limits.get("max_cost_usd", float("inf"))
    able = {
        slot.id
        for slot in episode.slots
        if slot.role == "answer" and PRIVACY_CLASSES.index(slot.privacy) >= least and slot.cost_usd <= most
    }
    return replace(episode, down=frozenset()) if able <= episode.down else episode


def _task(episode: Episode, limits: dict[str, Any], wishes: str) -> Task:
    return Task(
        problem=episode.problem,
        slots=tuple(slot.id for slot in episode.slots),
        weights=episode.weights,
        instruction=episode.instruction if wishes == "words" else "",
        limits=limits,
        down=episode.down,
        found={
            "search": finding("search", episode.domain)["documents"][0]["text"],
            "enhance_reasoning": finding("enhance_reasoning", episode.domain)["run"]["output"].strip(),
        },
    )


def _slot(slot: WorldSlot) -> Slot:
    price, role = {"per_call": slot.cost_usd}, slot.role
    return Slot(slot.id, slot.quality, price, int(slot.latency_ms), slot.privacy, slot.measured, role=role)


def _reply(pair: tuple[Episode, Episode], slot_id: str, helpers: Collection[str]) -> Reply:
    """As right as the world makes it: by skill, level and luck, and by what helpers have found."""
    for episode in pair:
        domain = NAMES.index(episode.domain)
        gain = float(np.prod([slot.gains[domain] for slot in episode.slots if slot.role in helpers]))
        for number, slot in enumerate(episode.slots):
            if slot.id == slot_id:
                right = bool(episode.luck[number] < min(1.0, episode.chances[number, episode.level] * gain))
                return Reply(episode.answers[number][0 if right else 1], right, 100, 100)
    raise KeyError(slot_id)


def with_chances(world: World, tasks: Sequence[int], row: Measured, contract: Contract) -> Measured:
    """A run that ended with an error is never right."""
    paths = [one.path for one in row.served] if row.served else [(("answer", slot),) for (slot,) in row.calls or ()]
    chances = [
        chance_of(world.episodes[task], path, contract) if path else 0.0
        for task, path in zip(tasks, paths, strict=True)
    ]
    return replace(row, chances=np.array(chances))


def first_utilities(episode: Episode, allowed: list[str], contract: Contract) -> dict[tuple[str, str], float]:
    """What each first choice is worth under true beliefs, by role and slot."""
    run = Run(episode.among(allowed), contract, np.random.default_rng(0))
    choices = run.choices()
    found = outlooks(run, choices, true_beliefs(run), contract)
    return {(choice["role"], choice["slot"]): float(one.utility) for choice, one in zip(choices, found, strict=True)}
