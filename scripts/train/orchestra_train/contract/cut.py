"""Cuts in code points, so that the twins need no tokenizer and no emoji is split."""

import re
from dataclasses import dataclass, replace

from .load import Contract


def keep_tail(text: str, limit: int) -> str:
    return text[max(0, len(text) - max(0, limit)) :]


def keep_head(text: str, limit: int, mark: str = "") -> str:
    """The first `limit` code points, of which the mark takes some when something was cut off."""
    if len(text) <= limit:
        return text
    room = limit - len(mark)
    return text[: max(0, limit)] if room < 0 else text[:room] + mark


def well_formed(text: str) -> str:
    """Lone surrogates become U+FFFD: they are no text."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


# What JavaScript's `trim` takes away; Python's `strip` takes a little more and misses U+FEFF.
BLANKS = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)


def trim(text: str) -> str:
    return text.strip(BLANKS)


@dataclass(frozen=True)
class Block:
    """A labelled or fenced piece of the prompt. A cut takes from the body only."""

    open: str
    body: str
    close: str

    @property
    def text(self) -> str:
        return self.open + self.body + self.close


def keep_newest(blocks: list[Block], limit: int) -> str:
    """Keeps the newest blocks (they stand last); the first that does not fit keeps its tail, older ones go."""
    kept = ""
    room = limit
    for block in reversed(blocks):
        fitting = shorten(block, room)
        if fitting is None:
            break
        kept = fitting.text + kept
        if fitting.body != block.body:
            break
        room -= len(fitting.text)
    return kept


def shorten(block: Block, limit: int) -> Block | None:
    """Cuts the body so that the whole block fits; None when not one code point of it would be left."""
    room = limit - len(block.open) - len(block.close)
    body = keep_tail(block.body, room) if room > 0 else ""
    if room < 0 or (body == "" and block.body != ""):
        return None
    return replace(block, body=body)


@dataclass(frozen=True)
class PromptBudgets:
    """In code points: everything together, the problem, the conversation."""

    prompt: int
    problem: int
    conversation: int


def prompt_budgets(context_tokens: int, contract: Contract) -> PromptBudgets:
    """Budgets scaled down for a policy whose context is smaller than the one they were written for."""
    budgets = contract["budgets"]
    reference = budgets["referenceContextTokens"]
    context = min(context_tokens, reference)

    def scaled(key: str) -> int:
        return budgets[key] * budgets["codePointsPerToken"] * context // reference

    return PromptBudgets(scaled("promptTokens"), scaled("problemTokens"), scaled("conversationTokens"))
