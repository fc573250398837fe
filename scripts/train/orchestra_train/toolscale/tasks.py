"""Tasks of a domain: who asks for what in which words, the golden calls, and what must be told."""

from typing import Any

import numpy as np

from .checks import golden_error, golden_solver, idle_solves, score
from .domain_words import DomainWords
from .environment import Call, Domain
from .intents import HARDER, SIMPLE, WITH_FALLBACK, Intent, NothingToDo, Rng, Scene, Want, start_scene
from .operations import ToolError

BASIS = ("execution", "process", "completeness")
MOST_TRIES = 200

OPENINGS = (
    "Hello, I would like to {want}.",
    "I need to {want}.",
    "Could you help me? My wish is to {want}.",
    "It is about my account: I want to {want}.",
    "Good evening. I was hoping to {want}.",
    "I have been trying all day to {want}.",
    "Quick question, quick wish: I want to {want}.",
    "My sister says you can arrange it: I'd like to {want}.",
)
IDENTITIES = (
    "My e-mail address is {email}.",
    "You know me as {email}.",
    "I am {name}, {email}.",
    "The account runs under {email}.",
)
JOININGS = (", and then to ", "; after that to ", ", and when this is done to ")
PERSONAS = ("brief and friendly", "in a hurry", "talkative", "careful, asks back", "a little cross", "formal")


def make_tasks(words: DomainWords, domain: Domain, count: int, seed: int) -> list[dict[str, Any]]:
    """Half of them plain, half evolved; each passed the filters, none twice. The same for the same seed."""
    tasks: dict[str, dict[str, Any]] = {}
    for attempt in range(count * MOST_TRIES):
        if len(tasks) == count:
            return list(tasks.values())
        rng = np.random.default_rng([seed, attempt, *words.name.encode()])
        level = len(tasks) % 2 * int(rng.integers(1, 4))
        try:
            task = _task(words, domain, rng, level)
        except (NothingToDo, ToolError):
            continue
        if _passes(domain, task):
            task["id"] = f"{words.name}-{len(tasks):04}"
            tasks.setdefault(task["user_scenario"]["instructions"]["reason_for_call"], task)
    raise ValueError(f"{words.name} has fewer than {count} tasks")


def _passes(domain: Domain, task: dict[str, Any]) -> bool:
    solved = score(domain, task, *golden_solver(domain, task)) > 0
    return solved and not golden_error(domain, task) and not idle_solves(domain, task)


def _task(words: DomainWords, domain: Domain, rng: Rng, level: int) -> dict[str, Any]:
    """Levels: 0 plain, 1 less is known, 2 two wishes, 3 a wish with a way out and a second one."""
    scene, found = start_scene(words, domain, rng)
    wants = [intent(scene) for intent in _intents(rng, level)]
    clause = scene.one_of(*JOININGS).join(want.clause for want in wants)
    opening, identity = scene.one_of(*OPENINGS), scene.one_of(*IDENTITIES)
    reason = f"{opening.format(want=clause)} {identity.format(**scene.person)}"
    calls = [found, *(call for want in wants for call in want.calls)]
    return _row(words, scene, reason, calls, wants, level)


def _intents(rng: Rng, level: int) -> list[Intent]:
    names = [str(name) for name in rng.permutation(list(SIMPLE))]
    if level == 0:
        return [SIMPLE[names[0]]]
    if level == 1:
        return [HARDER[str(rng.choice(list(HARDER)))]]
    first = WITH_FALLBACK if level == 3 else HARDER.get(names[0], SIMPLE[names[0]])
    return [first, SIMPLE[names[1]]]


def _row(
    words: DomainWords, scene: Scene, reason: str, calls: list[Call], wants: list[Want], level: int
) -> dict[str, Any]:
    return {
        "id": "",
        "domain": words.name,
        "level": level,
        # With looks that are not golden, since another would show the same.
        "demonstration": [{"name": call["name"], "arguments": call["arguments"]} for call in scene.environment.calls],
        "user_scenario": {
            "persona": scene.one_of(*PERSONAS),
            "instructions": {
                "domain": words.name,
                "reason_for_call": reason,
                "known_info": f"name {scene.person['name']}, e-mail {scene.person['email']}",
                "unknown_info": f"the {words.person} id",
                "task_instructions": "Say at the start all that you want; agree to what fits it; want nothing else.",
            },
        },
        "evaluation_criteria": {
            "actions": [{"name": call["name"], "arguments": dict(call["arguments"])} for call in calls],
            "communicate_info": [fact for want in wants for fact in want.told],
            "nl_assertions": [want.assertion for want in wants],
            "reward_basis": list(BASIS),
        },
    }
