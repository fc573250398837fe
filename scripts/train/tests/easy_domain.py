"""A domain that a tiny model learns in seconds: lamps are switched, and their new price is told."""

from typing import Any

from orchestra_train.contract.load import load_contract
from orchestra_train.contract.render import join_segments
from orchestra_train.gguf_file import tiny_model
from orchestra_train.tokenizer import TextTokenizer, tiny_tokenizer
from orchestra_train.toolscale.conversation import answer_turn, call_turn, opening, results_turn
from orchestra_train.toolscale.environment import Domain
from orchestra_train.toolscale.function_policy import FunctionPolicy, RunLimits
from orchestra_train.toolscale.task_pool import TaskPool

CONTRACT = load_contract("slots-1")
COLOURS = ("red", "blue", "green", "white", "black", "pink")
ROOMS = ("attic", "barn", "cellar", "hall")


def _switch(state: str) -> dict[str, Any]:
    step = {"do": "change", "table": "lamps", "id": "$lamp", "field": "state", "value": state}
    look = {"do": "get", "table": "lamps", "id": "$lamp", "into": "one"}
    told = {"lamp": {"type": "string", "description": "its colour"}}
    return {
        "name": f"switch_{state}",
        "description": f"Switches a lamp {state}.",
        "parameters": told,
        "steps": [look, step],
        "returns": {"room": "$one.room"},
    }


LAMPS = Domain(
    "lamps",
    "You switch lamps. Tell the room.",
    (_switch("on"), _switch("off")),
    {
        "lamps": {
            colour: {"id": colour, "state": "dim", "room": ROOMS[at % len(ROOMS)]} for at, colour in enumerate(COLOURS)
        }
    },
)


def _task(wishes: list[tuple[str, str]]) -> dict[str, Any]:
    asked = " and ".join(f"the {colour} lamp {state}" for colour, state in wishes)
    rooms = [LAMPS.database["lamps"][colour]["room"] for colour, _ in wishes]
    return {
        "id": "-".join(f"{colour}-{state}" for colour, state in wishes),
        "domain": "lamps",
        "level": len(wishes) - 1,
        "user_scenario": {"instructions": {"reason_for_call": f"Please switch {asked}.", "known_info": ""}},
        "evaluation_criteria": {
            "actions": [{"name": f"switch_{state}", "arguments": {"lamp": colour}} for colour, state in wishes],
            "communicate_info": rooms,
            "nl_assertions": [],
            "reward_basis": ["execution", "process", "completeness"],
        },
    }


def _pools() -> tuple[TaskPool, TaskPool]:
    wishes = [(colour, state) for colour in COLOURS for state in ("on", "off")]
    tasks = [_task([wish]) for wish in wishes]
    unseen = {"red-on", "green-off", "black-on"}
    domains = {"lamps": LAMPS}
    return (
        TaskPool(domains, [task for task in tasks if task["id"] not in unseen]),
        TaskPool(domains, [task for task in tasks if task["id"] in unseen]),
    )


SEEN, UNSEEN = _pools()


def _texts() -> list[str]:
    texts = [join_segments(opening(case.domain, case.task, case.functions, CONTRACT)) for case in SEEN.cases()]
    for colour in COLOURS:
        call = {"name": "switch_off", "arguments": {"lamp": colour}}
        texts += [join_segments(call_turn(call, CONTRACT)), join_segments(results_turn([{"room": "hall"}], CONTRACT))]
    texts += [join_segments(answer_turn(f"It is done: {room}.", CONTRACT)) for room in ROOMS]
    return texts


TOKENIZER = tiny_tokenizer(_texts() * 20, 700)


def tiny_policy(seed: int = 1, limits: RunLimits | None = None) -> FunctionPolicy:
    source = tiny_model("llama", TOKENIZER, seed, feed_forward=128)
    limits = limits or RunLimits(most_turns=3, most_tokens=32)
    return FunctionPolicy(source.model, TextTokenizer(source.metadata), CONTRACT, limits)
