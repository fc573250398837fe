"""Subjects in words, written down in `texts/subjects.txt`: what a card calls them, and tasks of theirs.

Lines there, `seen | unseen` being what training shows and what it never shows:

    hidden: whole subjects that training never shows
    group NAME: what a card may call the whole group
    NAME (GROUP): what a card may call the subject; …
    unseen: names that training never shows; …
    tasks, a line each, with numbers for {a} and {b}; behind a bar those that training never shows
"""

import re
from dataclasses import dataclass

from .wordings import TEXTS, Halves, halved

HEAD = re.compile(r"([a-z -]+) \(([a-z -]+)\): (.+)")


@dataclass(frozen=True)
class Subject:
    """`names` and `tasks` each as (seen, unseen)."""

    name: str
    group: str
    names: Halves
    tasks: Halves


@dataclass(frozen=True)
class Library:
    hidden: tuple[str, ...]
    groups: dict[str, Halves]
    subjects: dict[str, Subject]


def read_library(text: str) -> Library:
    hidden: tuple[str, ...] = ()
    groups: dict[str, Halves] = {}
    blocks: list[list[str]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        head = HEAD.fullmatch(line)
        if line.startswith("hidden: "):
            hidden = tuple(name.strip() for name in line.removeprefix("hidden: ").split(","))
        elif line.startswith("group ") and not blocks:
            name, _, names = line.removeprefix("group ").partition(": ")
            seen, _, unseen = names.partition("|")
            groups[name] = _listed(seen), _listed(unseen)
        elif head and head[2] in groups:
            blocks.append([line])
        else:
            blocks[-1].append(line)
    return Library(hidden, groups, {subject.name: subject for subject in map(_subject, blocks)})


def _subject(block: list[str]) -> Subject:
    head = HEAD.fullmatch(block[0])
    assert head
    name, group, names = head.groups()
    return Subject(name, group, (_listed(names), _listed(block[1].removeprefix("unseen: "))), halved(block[2:]))


def _listed(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(";") if name.strip())


_LIBRARY = read_library((TEXTS / "subjects.txt").read_text("utf-8"))
SUBJECTS = _LIBRARY.subjects
"""By name."""
GROUPS = _LIBRARY.groups
HIDDEN = _LIBRARY.hidden
