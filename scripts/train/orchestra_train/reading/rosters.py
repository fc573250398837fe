"""A problem, evidence and a few tools for it, each with what a perfect reader believes: the examples to learn from."""

from dataclasses import dataclass

import numpy as np

from ..contract.evidence import Evidence, apply_observation, no_evidence
from .cards import CHANCES, OVERALL, Card, CardShape, Statement, fresh_card, read_card, relative_card, report_card
from .problems import ProblemSource, open_subjects, task_text
from .subjects import SUBJECTS
from .wordings import Rng, choose, worded

GAINS = (1.0, 1.1, 1.3, 1.6, 2.0)
# Evidence that answers the problem lifts every answerer by a grade.
LIFT = 0.2
MOST_CHANCE = 0.9
CALCULABLE = ("mathematics", "natural sciences", "computing")


@dataclass(frozen=True)
class Tool:
    """`value` is the chance of an answerer or the gain of a helper, as a perfect reader sees it."""

    role: str
    quality: str
    value: float
    card: Card | None = None


@dataclass(frozen=True)
class Reading:
    problem: str
    subject: str
    evidence: Evidence
    tools: tuple[Tool, ...]
    # Of recorded outcomes: each value is 1 or 0, as it happened.
    recorded: bool = False
    # With evidence: whether its documents answer the problem, and whether its program gave a result.
    settled: tuple[bool, bool] | None = None


@dataclass(frozen=True)
class ReadingShape:
    card: CardShape = CardShape()
    relative: float = 0.1
    reported: float = 0.15
    evidence: float = 0.3
    helper: float = 0.15


def fresh_reading(
    rng: Rng, problems: ProblemSource, count: int, shape: ReadingShape, unseen: bool, subjects: list[str] | None = None
) -> Reading:
    """`subjects` narrows what the problem may be of; cards may speak of every open subject."""
    known = open_subjects(unseen)
    subject = choose(rng, subjects or known)
    problem = problems.fresh(rng, subject)
    evidence, searched, calculated = _fresh_evidence(rng, problem, subject, known, shape, unseen)
    lift = LIFT if searched or calculated else 0.0
    tools = []
    for _ in range(count):
        if tools and rng.random() < shape.helper:
            role = choose(rng, ["search", "enhance_reasoning"])
            done = searched if role == "search" else calculated
            card, gain = _helper(rng, role, subject, known, unseen)
            tools.append(Tool(role, card.text, 1.0 if done else gain, card))
        else:
            card = _answerer(rng, subject, known, shape, unseen)
            chance = max(read_card(card, subject), min(MOST_CHANCE, read_card(card, subject) + lift))
            tools.append(Tool("answer", card.text, chance, card))
    settled = (searched, calculated) if evidence != no_evidence() else None
    return Reading(problem, subject, evidence, tuple(tools), settled=settled)


def _answerer(rng: Rng, subject: str, known: list[str], shape: ReadingShape, unseen: bool) -> Card:
    way = rng.random()
    if way < shape.relative:
        return relative_card(rng, subject, known, unseen)
    if way < shape.relative + shape.reported:
        return report_card(rng, subject, known, unseen)
    return fresh_card(rng, subject, known, shape.card, unseen)


def _helper(rng: Rng, role: str, subject: str, known: list[str], unseen: bool) -> tuple[Card, float]:
    """Helps by its grade where the subject is in its scope, else not at all."""
    fits = rng.random() < 0.7
    others = [name for name in known if SUBJECTS[name].group != SUBJECTS[subject].group]
    scope = [subject] if fits else [choose(rng, others)]
    if rng.random() < 0.4:
        scope.append(choose(rng, others))
    scope = [scope[index] for index in rng.permutation(len(scope))]
    names = tuple(choose(rng, SUBJECTS[one].names[unseen]) for one in scope)
    grade = int(rng.integers(5))
    section = "search scope" if role == "search" else "code scope"
    text = worded(rng, section, unseen).replace("{d}", " and ".join(names))
    helps = Statement((OVERALL,), CHANCES[grade], worded(rng, f"help {grade}", unseen))
    return Card((Statement(tuple(scope), None, text, names), helps)), GAINS[grade] if fits else 1.0


def _fresh_evidence(
    rng: Rng, problem: str, subject: str, known: list[str], shape: ReadingShape, unseen: bool
) -> tuple[Evidence, bool, bool]:
    """-> evidence, whether documents answer the problem, whether a program gave a result."""
    evidence = no_evidence()
    if rng.random() >= shape.evidence:
        return evidence, False, False
    if SUBJECTS[subject].group in CALCULABLE and rng.random() < 0.5:
        worked = bool(rng.random() < 0.5)
        output = _filled(rng, worded(rng, "results" if worked else "failures", unseen), "")
        run = {"code": _filled(rng, "x = {a} * {b}\nprint(solve(x))", ""), "output": output + "\n"}
        return apply_observation(evidence, {"kind": "code_run", "run": run}), False, worked
    answers = bool(rng.random() < 0.5)
    others = [name for name in known if SUBJECTS[name].group != SUBJECTS[subject].group]
    question = problem if answers else task_text(rng, choose(rng, others), unseen)
    text = _filled(rng, worded(rng, "documents", unseen), question[:100])
    documents = [{"text": text, "source": "docs"}]
    return apply_observation(evidence, {"kind": "documents", "documents": documents}), answers, False


def _filled(rng: Rng, template: str, question: str) -> str:
    numbers = {"{a}": str(rng.integers(2, 99)), "{b}": str(rng.integers(11, 99))}
    for place, number in numbers.items():
        template = template.replace(place, number)
    return template.replace("{q}", question)


def value_range(role: str) -> tuple[float, ...]:
    return (0.1, 0.3, 0.5, 0.7, 0.9) if role == "answer" else GAINS


def as_grades(value: float, stops: tuple[float, ...]) -> np.ndarray:
    """Weights on the two neighbouring grades, so that their mean is the value."""
    weights = np.zeros(len(stops))
    value = float(np.clip(value, stops[0], stops[-1]))
    above = int(np.searchsorted(stops, value))
    share = 1.0 if above == 0 else (value - stops[above - 1]) / (stops[above] - stops[above - 1])
    weights[above] = share
    weights[max(0, above - 1)] += 1 - share
    return weights
