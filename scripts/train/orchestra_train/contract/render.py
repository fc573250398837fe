"""The prompt of one turn of `slots-*`, and the calls that are scored as its choices."""

import re
from dataclasses import dataclass
from typing import Any

from .cut import keep_tail, prompt_budgets, trim, well_formed
from .evidence import Evidence
from .evidence_text import evidence_text
from .load import Contract, dump_json, fill

# `{kind, text}`: only markup may become control tokens; text is always tokenised as plain text.
Segment = dict[str, str]


@dataclass(frozen=True)
class PromptInput:
    """`choices` are `{role, card}`; `preference` comes from `phrase_preference`; budgets scale with the context."""

    problem: str
    conversation: str
    evidence: Evidence
    choices: list[dict[str, Any]]
    preference: str
    context_tokens: int


def render_prompt(prompt: PromptInput, contract: Contract) -> list[Segment]:
    """Qwen3's chat template with tools, one user message and the generation prompt."""
    chat = contract["chat"]
    tools = [_text("\n" + tool) for tool in _tool_texts(prompt.choices, contract)]
    return merge_texts(
        [
            *trusted(chat["systemOpen"] + contract["system"] + chat["toolsOpen"], chat["controlTags"]),
            *tools,
            *trusted(chat["toolsClose"] + chat["turnClose"] + chat["userOpen"], chat["controlTags"]),
            _text(well_formed(_user_text(prompt, contract))),
            *trusted(chat["turnClose"] + chat["assistantOpen"], chat["controlTags"]),
        ]
    )


def choice_segments(role: str, slot_id: str, contract: Contract) -> list[Segment]:
    """The call that chooses this slot, as the engine scores it."""
    chat = contract["chat"]
    name = next(one["tool"]["function"]["name"] for one in contract["functions"] if one["role"] == role)
    return merge_texts(
        [
            *trusted(chat["callOpen"], chat["controlTags"]),
            _text(dump_json({"name": name, "arguments": {"model": slot_id}})),
            *trusted(chat["callClose"], chat["controlTags"]),
        ]
    )


def join_segments(segments: list[Segment]) -> str:
    return "".join(segment["text"] for segment in segments)


def trusted(text: str, control_tags: list[str]) -> list[Segment]:
    """Our own text, in which the given tags are markup. Never call it with text that somebody else wrote."""
    pieces = re.split(f"({'|'.join(map(re.escape, control_tags))})", text)
    return [{"kind": "markup" if piece in control_tags else "text", "text": piece} for piece in pieces if piece]


def merge_texts(segments: list[Segment]) -> list[Segment]:
    """Joins neighbouring texts, drops empty ones and makes every text well-formed Unicode."""
    merged: list[Segment] = []
    for segment in segments:
        if not segment["text"]:
            continue
        if merged and segment["kind"] == merged[-1]["kind"] == "text":
            merged[-1] = _text(merged[-1]["text"] + segment["text"])
        else:
            merged.append(segment)
    return [{**segment, "text": well_formed(segment["text"])} for segment in merged]


def _text(text: str) -> Segment:
    return {"kind": "text", "text": text}


def _tool_texts(choices: list[dict[str, Any]], contract: Contract) -> list[str]:
    """One line of JSON a function, in the order of the contract; a role without choices is not shown."""
    lines = []
    for entry in contract["functions"]:
        cards = [choice["card"] for choice in choices if choice["role"] == entry["role"]]
        if not cards:
            continue
        tool = entry["tool"]
        parameters = tool["function"]["parameters"]
        model = parameters["properties"]["model"]
        shown = {**model, "description": fill(model["description"], {"slots": describe_slots(cards, contract)})}
        # Replacing a value keeps its key's place: the key order stays as trained.
        parameters = {**parameters, "properties": {"model": shown}}
        lines.append(dump_json({**tool, "function": {**tool["function"], "parameters": parameters}}))
    return lines


def _user_text(prompt: PromptInput, contract: Contract) -> str:
    labels = contract["labels"]
    budgets = prompt_budgets(prompt.context_tokens, contract)
    conversation = keep_tail(prompt.conversation, budgets.conversation)
    problem = keep_tail(prompt.problem, budgets.problem)
    room = budgets.prompt - len(conversation) - len(problem)
    return "".join(
        [
            f"{labels['conversation']}{conversation}\n\n" if conversation else "",
            labels["problem"],
            problem,
            f"\n\n{prompt.preference}" if prompt.preference else "",
            f"\n\n{evidence_text(prompt.evidence, room, contract)}\n\n",
            contract["closing"],
        ]
    )


def describe_slots(cards: list[dict[str, str]], contract: Contract) -> str:
    """The description of a function's `model`: ids, a sentence each, then the table of prices and latencies."""
    texts = contract["slotText"]
    choices = fill(texts["choices"], {"ids": ", ".join(f"'{card['id']}'" for card in cards)})
    rows = [
        fill(
            texts["row"],
            {
                "slot": card["id"],
                "input": card["inputPrice"],
                "output": card["outputPrice"],
                "latency": card["latency"],
            },
        )
        for card in cards
    ]
    return "\n".join([" ".join([choices, *(card["sentence"] for card in cards)]), texts["table"], *rows])


def slot_card(slot: dict[str, Any], contract: Contract) -> dict[str, str]:
    """What the policy sees of `{id, quality, rates, latencyMs, privacy}`; rates are integer nano-dollars a million."""
    texts = contract["slotText"]
    quality = trim(slot["quality"])
    ended = quality if re.search(r"[.!?]\Z", quality) else f"{quality}."
    rates = slot["rates"]
    return {
        "id": slot["id"],
        "sentence": fill(
            texts["sentence"], {"slot": slot["id"], "quality": ended, "place": texts["places"][slot["privacy"]]}
        ),
        "inputPrice": texts["unknownPrice"] if rates is None else _price_text(rates["input"]),
        "outputPrice": texts["unknownPrice"] if rates is None else _price_text(rates["output"]),
        "latency": f"{int(slot['latencyMs'] / 1000 + 0.5)}s",
    }


def deliver_card(attempt: dict[str, str], contract: Contract) -> dict[str, str]:
    """The choice of handing out an attempt: free and immediate."""
    texts = contract["slotText"]
    sentence = fill(texts["sentence"], {"slot": attempt["id"], "quality": texts["deliver"], "place": ""})
    return {
        "id": attempt["id"],
        "sentence": trim(sentence),
        "inputPrice": "$0",
        "outputPrice": "$0",
        "latency": "0s",
    }


def _price_text(nano_usd_per_million: int) -> str:
    """Nano-dollars per million units as the exact decimal number of dollars: `$1.25`, `$10`."""
    whole, fraction = divmod(nano_usd_per_million, 10**9)
    decimals = f"{fraction:09d}".rstrip("0")
    return f"${whole}.{decimals}" if decimals else f"${whole}"


def thought_segments(contract: Contract) -> list[Segment]:
    """How Qwen3 opens and closes a thought: empty, as the engine writes it for a policy that does not think."""
    chat = contract["chat"]
    return [{"kind": "markup", "text": chat["thoughtOpen"]}, {"kind": "markup", "text": chat["thoughtClose"]}]
