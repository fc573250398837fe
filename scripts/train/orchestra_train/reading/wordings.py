"""How cards, evidence and wishes are worded, written down in `texts/wordings.txt`.

A `[section]` there has a wording a line; those behind a bar are never shown in training. `{d}` is a subject, `{p}` a
percentage, `{n}` a count of ten, `{q}` a question, `{a}` and `{b}` are numbers; of `<a/b/c>` one is taken. Grades go
from worst to best.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

Rng = np.random.Generator
Choice = TypeVar("Choice")
# Seen in training, and not.
Halves = tuple[tuple[str, ...], tuple[str, ...]]

TEXTS = Path(__file__).with_name("texts")
_ALTERNATIVES = re.compile(r"<([^<>]*/[^<>]*)>")
_HEAD = re.compile(r"\[([a-z0-9 ]+)\]")


def choose(rng: Rng, options: Sequence[Choice]) -> Choice:
    return options[rng.integers(len(options))]


def shuffled(rng: Rng, items: Sequence[Choice]) -> list[Choice]:
    return [items[index] for index in rng.permutation(len(items))]


def worded(rng: Rng, section: str, unseen: bool) -> str:
    line = choose(rng, SECTIONS[section][unseen])
    return _ALTERNATIVES.sub(lambda found: choose(rng, found[1].split("/")), line)


def halved(lines: Sequence[str]) -> Halves:
    return (
        tuple(line for line in lines if not line.startswith("|")),
        tuple(line[1:].strip() for line in lines if line.startswith("|")),
    )


def read_sections(text: str) -> dict[str, Halves]:
    sections: dict[str, list[str]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        head = _HEAD.fullmatch(line)
        if head:
            sections[head[1]] = []
        else:
            next(reversed(sections.values())).append(line)
    return {name: halved(lines) for name, lines in sections.items()}


SECTIONS = read_sections((TEXTS / "wordings.txt").read_text("utf-8"))
