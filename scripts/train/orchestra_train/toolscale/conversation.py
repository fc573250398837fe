"""A task as a policy sees it, and what is made of what it writes: Qwen3's template with tools.

The history is the true one and only grows, so a run is one row of tokens: what the person wants, then by turns what the
policy wrote and what the tools returned.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..contract.cut import keep_head, trim
from ..contract.load import Contract
from ..contract.parse import after_thought
from ..contract.render import Segment, merge_texts, trusted
from .environment import Call, Domain, Environment
from .model_output import Malformed, json_in, plain_arguments
from .operations import ToolError

MOST_CALLS = 6
LONGEST_RESULT = 2000
RESULT_OPEN, RESULT_CLOSE = "<tool_response>", "</tool_response>"


@dataclass(frozen=True)
class Spoken:
    """A turn of the policy: calls in order, and words to the person. Without a call the words are the answer."""

    calls: tuple[Call, ...]
    words: str


def opening(
    domain: Domain, task: Mapping[str, Any], functions: Sequence[Any], contract: Contract, wish: str = ""
) -> list[Segment]:
    """`functions`: those that are shown; `wish`: what the person prefers, in words."""
    chat = contract["chat"]
    tags = chat["controlTags"]
    tools = [_text(f"\n{json.dumps(function, ensure_ascii=False)}") for function in functions]
    return merge_texts(
        [
            *trusted(chat["systemOpen"], tags),
            _text(domain.policy),
            *trusted(chat["toolsOpen"], tags),
            *tools,
            *trusted(chat["toolsClose"] + chat["turnClose"] + chat["userOpen"], tags),
            _text("\n\n".join(part for part in (request_of(task), wish) if part)),
            *trusted(chat["turnClose"] + chat["assistantOpen"], tags),
        ]
    )


def request_of(task: Mapping[str, Any]) -> str:
    """All that the person says, at once."""
    instructions = task["user_scenario"]["instructions"]
    return f"{instructions['reason_for_call']}\n{instructions['known_info']}"


def call_turn(call: Call, contract: Contract) -> list[Segment]:
    """How a policy writes this call, to the end of its turn."""
    chat = contract["chat"]
    written = json.dumps({"name": call["name"], "arguments": call["arguments"]}, ensure_ascii=False)
    return merge_texts(
        [
            *trusted(chat["callOpen"], chat["controlTags"]),
            _text(written),
            *trusted(chat["callClose"] + turn_end(contract), chat["controlTags"]),
        ]
    )


def answer_turn(words: str, contract: Contract) -> list[Segment]:
    return merge_texts([_text(words), *trusted(turn_end(contract), contract["chat"]["controlTags"])])


def expert_turn(step: Spoken, contract: Contract) -> list[Segment]:
    """What an expert wrote in the policy's place, as a turn behind the one that called it."""
    chat = contract["chat"]
    after = chat["turnClose"].removeprefix(turn_end(contract))
    turn = call_turn(step.calls[0], contract) if step.calls else answer_turn(step.words, contract)
    return merge_texts([*trusted(after + chat["assistantOpen"], chat["controlTags"]), *turn])


def turn_end(contract: Contract) -> str:
    return trim(contract["chat"]["turnClose"])


def results_turn(results: Sequence[Any], contract: Contract) -> list[Segment]:
    """What the tools returned, behind the end of the policy's turn and up to where it goes on."""
    chat = contract["chat"]
    shown = [keep_head(json.dumps(result, ensure_ascii=False), LONGEST_RESULT, "…") for result in results]
    blocks = [[_text("\n"), _tag(RESULT_OPEN), _text(f"\n{one}\n"), _tag(RESULT_CLOSE)] for one in shown]
    after = chat["turnClose"].removeprefix(turn_end(contract))
    return merge_texts(
        [
            *trusted(after + chat["userOpen"].removesuffix("\n"), chat["controlTags"]),
            *(segment for block in blocks for segment in block),
            *trusted(chat["turnClose"] + chat["assistantOpen"], chat["controlTags"]),
        ]
    )


def read_turn(text: str, contract: Contract) -> Spoken:
    """`text`: all that the policy wrote before the end of its turn. @raises Malformed"""
    chat = contract["chat"]
    spoken = after_thought(text, chat)
    if spoken is None:
        raise Malformed("unfinished thought")
    words, *blocks = spoken.split(trim(chat["callOpen"]))
    calls = []
    for block in blocks:
        inside, close, behind = block.partition(trim(chat["callClose"]))
        if not close:
            raise Malformed("unfinished call")
        calls.append(_call_in(inside))
        words += behind
    if len(calls) > MOST_CALLS:
        raise Malformed("too many calls")
    if not calls and not trim(words):
        raise Malformed("nothing said")
    return Spoken(tuple(calls), trim(words))


def _call_in(text: str) -> Call:
    """Exactly a name and arguments; whether there is such a tool is for the environment to say."""
    call = json_in(text)
    if not isinstance(call, dict) or set(call) != {"name", "arguments"}:
        raise Malformed("a call is a name and arguments")
    if not isinstance(call["name"], str) or not plain_arguments(call["arguments"]):
        raise Malformed("a call is a name and plain arguments")
    return call


def result_of(environment: Environment, call: Call) -> Any:
    try:
        return environment.call(call["name"], call["arguments"])
    except ToolError as refused:
        return {"error": str(refused)}


def _text(text: str) -> Segment:
    return {"kind": "text", "text": text}


def _tag(text: str) -> Segment:
    return {"kind": "markup", "text": text}
