"""Reads what a policy wrote, by text. The first call decides; a thought before it and extra arguments are tolerated."""

import json
import re
from collections.abc import Iterable
from typing import Any

from .cut import BLANKS, trim
from .load import Contract

Decision = dict[str, str]


def parse_decision(text: str, contract: Contract, admissible: Iterable[dict[str, str]]) -> Decision:
    """`{kind: call, role, slot}` or `{kind: malformed, reason}`."""
    spoken = after_thought(text, contract["chat"])
    if spoken is None:
        return _malformed("unfinished_thought")
    _, tag, behind = spoken.partition(trim(contract["chat"]["callOpen"]))
    if not tag:
        return _malformed("no_call")
    call = _leading_json(behind)
    if not isinstance(call, dict) or not isinstance(call.get("name"), str) or "arguments" not in call:
        return _malformed("bad_json")
    wanted = next((one for one in contract["functions"] if one["tool"]["function"]["name"] == call["name"]), None)
    if wanted is None:
        return _malformed("unknown_function")
    arguments = call["arguments"]
    slot = arguments.get("model") if isinstance(arguments, dict) else None
    if not isinstance(slot, str):
        return _malformed("no_model")
    role = wanted["role"]
    offered = any(candidate["role"] == role and candidate["slot"] == slot for candidate in admissible)
    return {"kind": "call", "role": role, "slot": slot} if offered else _malformed("unknown_slot")


def _malformed(reason: str) -> Decision:
    return {"kind": "malformed", "reason": reason}


def after_thought(text: str, chat: dict[str, str]) -> str | None:
    """What follows the thought, which is there only when the text begins with it; None when it never closes."""
    if not text.lstrip(BLANKS).startswith(trim(chat["thoughtOpen"])):
        return text
    _, close, behind = text.partition(trim(chat["thoughtClose"]))
    return behind if close else None


def _leading_json(text: str) -> Any:
    """The JSON object at the beginning, whatever follows it; None when there is none."""
    if not re.match(r"[ \t\r\n]*\{", text):
        return None
    try:
        # Whole numbers as floats, as in JavaScript: Python refuses very long ones.
        return json.loads(text[: _end_of_object(text)], parse_int=float, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _end_of_object(text: str) -> int:
    """Index behind the brace that closes the first object; braces in strings do not count."""
    depth = 0
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"?|[{}]', text, flags=re.DOTALL):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return match.end()
    return len(text)
