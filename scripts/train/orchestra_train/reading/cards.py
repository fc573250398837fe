"""A card as statements with known meaning, written down in many wordings; and what a perfect reader makes of it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..contract.load import fill, load_contract
from .subjects import GROUPS, SUBJECTS
from .wordings import Rng, choose, shuffled, worded

# What the five grades stand for, as in the contract.
CHANCES = (0.1, 0.3, 0.5, 0.7, 0.9)
OVERALL = "overall"
# Measured skills as the contract words them, from worst to best.
TESTED: list[str] = load_contract("beliefs-1")["skills"]["phrases"]


@dataclass(frozen=True)
class Statement:
    """What is said about subjects, groups, or OVERALL. Without a chance it says nothing about skill."""

    about: tuple[str, ...]
    chance: float | None
    text: str
    # What `about` is called in the text, in the same order.
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Card:
    """`joint` stands between statements; "" for sentences of their own."""

    statements: tuple[Statement, ...]
    joint: str = ""

    def spans(self) -> Iterator[tuple[int, str, Statement]]:
        """Where each statement with words begins, and its words as they stand in the text."""
        spoken = [statement for statement in self.statements if statement.text]
        start = 0
        for place, statement in enumerate(spoken):
            if not self.joint:
                words = sentence(statement.text)
            else:
                opens = statement.text.endswith(":")
                words = statement.text + ("" if opens else self.joint if place < len(spoken) - 1 else ".")
            yield start, words, statement
            start += len(words) + 1

    @property
    def text(self) -> str:
        return " ".join(words for _, words, _ in self.spans())


def read_card(card: Card, subject: str) -> float:
    """The chance of a right answer as the card tells it: of the subject, else its group, else the whole."""
    for about in (subject, SUBJECTS[subject].group, OVERALL):
        for statement in card.statements:
            if about in statement.about and statement.chance is not None:
                return statement.chance
    told = [statement.chance for statement in card.statements if statement.chance is not None]
    # Of other subjects only: half way between them and not knowing.
    return 0.5 + (float(np.mean(told)) - 0.5) / 2 if told else 0.5


@dataclass(frozen=True)
class CardShape:
    """How a card for a problem's subject is drawn: how the subject is told, and how much else is said."""

    named: float = 0.5
    by_group: float = 0.12
    by_whole: float = 0.26
    most_others: int = 4
    measured: float = 0.15
    aside: float = 0.2


def fresh_card(rng: Rng, subject: str, subjects: list[str], shape: CardShape, unseen: bool) -> Card:
    """The subject's grade is uniform and independent of all else that is said."""
    way = float(rng.random())
    statements: list[Statement] = []
    told = {subject}
    if way < shape.named:
        also = _others(rng, subject, subjects, int(rng.integers(0, 3)) if rng.random() < 0.25 else 0, siblings=True)
        told |= set(also)
        statements.append(_graded(rng, shuffled(rng, [subject, *also]), shape, unseen))
    elif way < shape.named + shape.by_group:
        statements.append(_graded(rng, [SUBJECTS[subject].group], shape, unseen))
    named = bool(statements)
    if rng.random() < 0.5 if named else way < shape.named + shape.by_group + shape.by_whole:
        statements.append(_overall(rng, shape, unseen))
    # Where the subject is not named its neighbours are not either: what they would say of it is nobody's to know.
    siblings = way < shape.named
    count = int(rng.integers(0 if statements else 1, shape.most_others + 1))
    for other in _others(rng, subject, [name for name in subjects if name not in told], count, siblings):
        statements.append(_graded(rng, [other], shape, unseen))
    if rng.random() < shape.aside:
        statements.append(Statement((), None, worded(rng, "asides", unseen)))
    return Card(tuple(shuffled(rng, statements)))


def relative_card(rng: Rng, subject: str, subjects: list[str], unseen: bool) -> Card:
    """One line: a grade on the whole, and where the tool is above or below it."""
    whole = int(rng.integers(1, 4))
    first, second = shuffled(rng, [subject, *_others(rng, subject, subjects, 1, siblings=False)])
    compared = [Statement((OVERALL,), CHANCES[whole], worded(rng, f"overall {whole}", unseen))]
    for about, section, grade in ((first, "best", whole + 1), (second, "worst", whole - 1)):
        name = _name(rng, about, unseen)
        text = worded(rng, section, unseen).replace("{d}", name)
        compared.append(Statement((about,), CHANCES[grade], text, (name,)))
    return Card(tuple(compared), ";")


def report_card(rng: Rng, subject: str, subjects: list[str], unseen: bool) -> Card:
    """As benchmarks report: a figure or a grade on the whole, then a list; the problem's subject is mostly in it."""
    count = int(rng.integers(2, 9))
    about = _others(rng, subject, subjects, count, siblings=True)
    if rng.random() < 0.85:
        about = shuffled(rng, [subject, *about[1:]])
    form = rng.random()
    if form < 0.4:
        whole = int(rng.integers(10, 98))
        opening = f"Measured on {rng.integers(100, 2000)} questions: {whole}% correct overall. By subject:"
        entries = [_entry(rng, one, unseen) for one in about]
        return Card((Statement((OVERALL,), whole / 100, opening), *entries), ";")
    if form < 0.6:
        return Card((Statement((), None, "In tests:"), *(_tested(rng, one, unseen) for one in about)), ";")
    graded = rng.integers(5, size=len(about))
    statements = [_overall(rng, CardShape(measured=0), unseen)]
    for grade in rng.permutation(5):
        listed = [one for one, own in zip(about, graded, strict=True) if own == grade]
        if listed:
            statements.append(_graded_as(rng, listed, int(grade), unseen))
    return Card(tuple(statements))


def _tested(rng: Rng, about: str, unseen: bool) -> Statement:
    """As the contract words a measured skill."""
    grade = int(rng.integers(5))
    name = _name(rng, about, unseen)
    phrase = fill(TESTED[grade], {"domain": name})
    return Statement((about,), CHANCES[grade], phrase, (name,))


def _entry(rng: Rng, about: str, unseen: bool) -> Statement:
    percent = int(rng.integers(5, 100))
    name = _name(rng, about, unseen)
    return Statement((about,), percent / 100, f"{name} {percent}%", (name,))


def _others(rng: Rng, subject: str, subjects: list[str], count: int, siblings: bool) -> list[str]:
    group = SUBJECTS[subject].group
    open_ = [name for name in subjects if name != subject and (siblings or SUBJECTS[name].group != group)]
    return shuffled(rng, open_)[:count]


def _graded(rng: Rng, about: list[str], shape: CardShape, unseen: bool) -> Statement:
    names = tuple(_name(rng, one, unseen) for one in about)
    listed = _list(list(names))
    if rng.random() < shape.measured:
        chance, text = _measured(rng, "measured", unseen)
        return Statement(tuple(about), chance, text.replace("{d}", listed), names)
    return _graded_as(rng, about, int(rng.integers(5)), unseen, names)


def _graded_as(rng: Rng, about: list[str], grade: int, unseen: bool, names: tuple[str, ...] | None = None) -> Statement:
    names = names or tuple(_name(rng, one, unseen) for one in about)
    text = worded(rng, f"graded {grade}", unseen).replace("{d}", _list(list(names)))
    return Statement(tuple(about), CHANCES[grade], text, names)


def _overall(rng: Rng, shape: CardShape, unseen: bool) -> Statement:
    if rng.random() < shape.measured:
        return Statement((OVERALL,), *_measured(rng, "measured overall", unseen))
    grade = int(rng.integers(5))
    return Statement((OVERALL,), CHANCES[grade], worded(rng, f"overall {grade}", unseen))


def _measured(rng: Rng, section: str, unseen: bool) -> tuple[float, str]:
    text = worded(rng, section, unseen)
    percent = int(rng.integers(1, 10)) * 10 if "{n}" in text else int(rng.integers(10, 98))
    return percent / 100, text.replace("{p}", str(percent)).replace("{n}", str(percent // 10))


def _name(rng: Rng, about: str, unseen: bool) -> str:
    if about in GROUPS:
        return choose(rng, GROUPS[about][unseen])
    return choose(rng, SUBJECTS[about].names[unseen])


def _list(names: list[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


def sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith((".", "*")) else ".")
