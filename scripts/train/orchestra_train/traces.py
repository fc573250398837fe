"""What people said about answers, from `orchestra runs export`: counts of skill, and examples for a reader of cards.

Departure from the paper, which learns from tasks with known answers only: here an outcome is the feedback of who asked.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .contract.beliefs import described
from .contract.cut import trim
from .contract.evidence import no_evidence
from .contract.load import load_contract
from .reading.cards import Rng
from .reading.rosters import Reading, Tool
from .reading.train import CardSettings, fresh_problem

# Every other class is private, one that is not known too.
OPEN = ("any", "no_training")
# Answers' worth of trust in a model's overall rate before those of one domain outweigh it.
TRUST = 10
ELSEWHERE = ""
MOST_CODE_POINTS = 4000


@dataclass(frozen=True)
class Judged:
    """One judged answer. `problem` is empty where nothing can be learnt from it, and `only_counted` says why."""

    model: str
    slot: str
    score: float
    domains: dict[str, float]
    problem: str
    quality: str
    # Chance of a right answer by domain, as the card has it.
    skills: dict[str, float] = field(default_factory=dict)
    only_counted: str = ""


@dataclass(frozen=True)
class Traces:
    judged: tuple[Judged, ...]
    # Lines that are no judged run: no feedback, nobody answered, or not written by an export.
    passed_over: int


def read_traces(path: Path) -> Traces:
    """The last line of a run counts, so that exports can be joined."""
    found: dict[str, Judged] = {}
    passed_over = 0
    # What is no text at all is passed over line by line, as other lines are that no export wrote.
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                run = json.loads(line)
                found[str(run["run_id"])] = _judged(run)
            except (ValueError, KeyError, TypeError, AttributeError, IndexError):
                passed_over += 1
    return Traces(tuple(found.values()), passed_over)


def _judged(run: dict[str, Any]) -> Judged:
    """@raises KeyError, TypeError, ValueError for what is none."""
    score = float(run["feedback"]["score"])
    if not 0 <= score <= 1:
        raise ValueError(f"a score is from 0 to 1, not {score}")
    answered = [
        turn for turn in run["turns"] if turn["role"] == "answer" and turn["outcome"] in ("answered", "delivered")
    ]
    card = run.get("card", {})
    only_counted = _only_counted(run)
    return Judged(
        str(answered[-1]["model"]),
        str(answered[-1]["slot"]),
        score,
        {str(name): float(share) for name, share in run.get("domains", {}).items()},
        "" if only_counted else _problem(run),
        str(card.get("quality", "")),
        {str(name): float(chance) for name, chance in card.get("skills", {}).items()},
        only_counted,
    )


def _only_counted(run: dict[str, Any]) -> str:
    """Why a judged answer teaches no reader of cards; empty where it does."""
    if run.get("privacy") not in OPEN:
        return "private"
    if "texts" not in run:
        return "no texts kept"
    if not run.get("card", {}).get("quality"):
        return "its slot is not served any more"
    # What was found is not kept, and an answer leans on it.
    if any(turn["role"] not in ("answer", "attempt") for turn in run["turns"]):
        return "something was looked up or calculated"
    return "" if _problem(run) else "no question, or too long"


def _problem(run: dict[str, Any]) -> str:
    """The last thing that the user said. Texts of a private run are not looked at, even where a file holds them."""
    if run.get("privacy") not in OPEN or "texts" not in run:
        return ""
    asked = [message["content"] for message in run["texts"]["messages"] if message["role"] == "user"]
    return asked[-1] if asked and len(asked[-1]) <= MOST_CODE_POINTS else ""


Counts = dict[str, dict[str, dict[str, float]]]


def count_skills(judged: Iterable[Judged]) -> Counts:
    """Right and wrong by model and domain, as the gateway counts feedback; what no domain explains is under ''."""
    counts: Counts = defaultdict(lambda: defaultdict(lambda: {"right": 0.0, "wrong": 0.0}))
    for one in judged:
        rest = max(0.0, 1 - sum(one.domains.values()))
        shares = {**one.domains, ELSEWHERE: one.domains.get(ELSEWHERE, 0.0) + rest}
        for domain, share in shares.items():
            counts[one.model][domain]["right"] += share * one.score
            counts[one.model][domain]["wrong"] += share * (1 - one.score)
    return {model: {domain: dict(sums) for domain, sums in domains.items()} for model, domains in counts.items()}


def fitted_skills(counts: Counts, least_answers: float = 5) -> dict[str, dict[str, float]]:
    """Chances to write under `skills`, of domains with enough answers, drawn towards the model's overall rate."""
    fitted = {}
    for model, domains in counts.items():
        right = sum(sums["right"] for sums in domains.values())
        total = right + sum(sums["wrong"] for sums in domains.values())
        overall = (right + 1) / (total + 2)
        fitted[model] = {
            domain: round((TRUST * overall + sums["right"]) / (TRUST + sums["right"] + sums["wrong"]), 3)
            for domain, sums in domains.items()
            if domain != ELSEWHERE and sums["right"] + sums["wrong"] >= least_answers
        }
    return fitted


def traced_readings(judged: Iterable[Judged]) -> list[Reading]:
    """An example a judged answer whose question and card are known: the tool's value is the score."""
    contract = load_contract("beliefs-1")

    def tool(one: Judged) -> Tool:
        return Tool("answer", described(trim(one.quality), one.skills, contract), one.score)

    return [
        Reading(one.problem, "", no_evidence(), (tool(one),), recorded=True)
        for one in judged
        if one.problem and one.quality
    ]


class TracedSource:
    """Judged answers for a share of the problems, the world's own for the rest, so that reading is not forgotten."""

    def __init__(self, readings: list[Reading], share: float) -> None:
        self._readings, self._share = readings, share

    def __call__(self, rng: Rng, settings: CardSettings, level: float) -> Reading:
        if rng.random() < self._share:
            return self._readings[int(rng.integers(len(self._readings)))]
        return fresh_problem(rng, settings, level)
