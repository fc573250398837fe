"""One problem with one roster under one preference, and the run through it, turn by turn."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..contract.evidence import Evidence, apply_observation, no_evidence, open_choices
from ..contract.load import Contract
from .problems import recorded_problems
from .roster import LEVELS, NAMES, PRIVACY_CLASSES, WorldShape, WorldSlot, fresh_roster
from .texts import WISHES, Rng, pick, task_text

TURNS = 6
COINCIDENCE = 0.2
PROFILES = {
    "balanced": (0.5, 0.25, 0.25, 0.0),
    "quality": (0.9, 0.05, 0.05, 0.0),
    "cost": (0.3, 0.6, 0.1, 0.0),
    "latency": (0.3, 0.1, 0.6, 0.0),
    "privacy": (0.4, 0.1, 0.1, 0.4),
}
AXES = ("quality", "cost", "latency", "privacy")


@dataclass(frozen=True)
class Episode:
    """What is hidden and what is shown. chances: [slots, levels]; luck: [slots], below a chance means right.

    `answers` [slots] holds the texts of a right and of a wrong answer. `failures` is the chance that a call fails;
    the calls of the slots in `down` all do.
    """

    problem: str
    domain: str
    level: int
    slots: tuple[WorldSlot, ...]
    chances: np.ndarray
    luck: np.ndarray
    answers: tuple[tuple[str, str], ...]
    weights: dict[str, float]
    instruction: str
    failures: float
    comparable: bool = True
    down: frozenset[str] = frozenset()
    # What happened is on record, and happens again.
    recorded: bool = False

    def again(self, rng: Rng) -> "Episode":
        """The same problem and tools on another day: what is left to chance falls anew."""
        return self if self.recorded else replace(self, luck=rng.random(len(self.slots)))

    def among(self, slot_ids: Collection[str]) -> "Episode":
        """The same problem with some of its tools, such as those that limits admit."""
        kept = [number for number, slot in enumerate(self.slots) if slot.id in slot_ids]
        return replace(
            self,
            slots=tuple(self.slots[number] for number in kept),
            chances=self.chances[kept],
            luck=self.luck[kept],
            answers=tuple(self.answers[number] for number in kept),
        )


def fresh_episode(rng: Rng, shape: WorldShape, unseen: bool = False, roster: list[WorldSlot] | None = None) -> Episode:
    """With fresh tools, unless a roster is given."""
    domain = NAMES[rng.integers(len(NAMES))]
    slots = fresh_roster(rng, shape, unseen) if roster is None else roster
    profile = list(PROFILES)[rng.integers(len(PROFILES))]
    weights = dict(zip(AXES, PROFILES[profile], strict=True))
    wish = pick(rng, WISHES[profile], unseen) if profile in WISHES and shape.wishes_in_words else ""
    skills = np.array([slot.skills[NAMES.index(domain)] for slot in slots])
    return Episode(
        problem=_problem(rng, domain, shape, unseen),
        domain=domain,
        level=int(rng.integers(len(LEVELS))),
        slots=tuple(slots),
        chances=1 / (1 + np.exp(-(skills[:, None] + np.array(LEVELS)))),
        luck=rng.random(len(slots)),
        answers=_answer_texts(rng, len(slots)),
        weights=weights,
        instruction=wish,
        failures=shape.failures,
    )


def _problem(rng: Rng, domain: str, shape: WorldShape, unseen: bool) -> str:
    asked = recorded_problems(unseen).get(domain, []) if shape.recorded > 0 and rng.random() < shape.recorded else []
    return asked[rng.integers(len(asked))] if asked else task_text(rng, domain)


def _answer_texts(rng: Rng, count: int) -> tuple[tuple[str, str], ...]:
    """Wrong answers share one value often enough that two of them are equal with the chance of coincidence."""
    right = int(rng.integers(100, 900))
    common = rng.random(count) < COINCIDENCE**0.5
    wrong = [right + 1 if common[slot] else right + 10 + slot for slot in range(count)]
    return tuple((f"I work it out. The answer is {right}.", f"I work it out. The answer is {w}.") for w in wrong)


@dataclass
class Run:
    """Mutable on purpose: one walk through an episode."""

    episode: Episode
    contract: Contract
    rng: Rng
    attempts: bool = True
    evidence: Evidence = field(default_factory=no_evidence)
    gain: float = 1.0
    cost_usd: float = 0.0
    latency_ms: float = 0.0
    privacy: float = 1.0
    calls: list[int] = field(default_factory=list)
    # Role and id of every choice so far, failures included.
    path: tuple[tuple[str, str], ...] = ()
    # Ids of slots that failed: they leave, and the turn is taken again.
    lost: frozenset[str] = frozenset()
    preparations: int = 0
    turns_left: int = TURNS
    correct: bool = False
    # Whose answer was given, an attempt that was delivered included.
    answered_by: int | None = None
    done: bool = False

    def choices(self) -> list[dict[str, Any]]:
        """Open this turn; on the last one only what ends the run."""
        slots = [{"id": slot.id, "role": slot.role} for slot in self.episode.slots if slot.id not in self.lost]
        known = any(one["role"] == "attempt" for one in self.contract["functions"])
        found, _ = open_choices(slots, self.evidence, self.contract, self.attempts and known)
        return found if self.turns_left > 1 else [choice for choice in found if choice["role"] == "answer"]

    def slot_number(self, choice: dict[str, Any]) -> int:
        return next(at for at, slot in enumerate(self.episode.slots) if slot.id == choice["slot"])

    def step(self, choice: dict[str, Any]) -> None:
        number = self.slot_number(choice)
        self.path += ((choice["role"], choice["id"]),)
        if choice["delivers"]:
            self.correct = choice["delivers"]["text"] == self.episode.answers[number][0]
            self.answered_by, self.done = number, True
            return
        slot = self.episode.slots[number]
        self.calls.append(number)
        self.latency_ms += slot.latency_ms
        self.privacy = min(self.privacy, PRIVACY_CLASSES.index(slot.privacy) / 4)
        if self.rng.random() < self.episode.failures or slot.id in self.episode.down:
            self.lost |= {slot.id}
            self.done = not any(open_choice["role"] == "answer" for open_choice in self.choices())
            return
        self.turns_left -= 1
        self.cost_usd += slot.cost_usd
        self._observe(number, choice["role"])
        self.done = self.done or self.turns_left == 0

    def _observe(self, number: int, role: str) -> None:
        slot = self.episode.slots[number]
        if role in ("search", "enhance_reasoning"):
            first = not self.evidence["documents" if role == "search" else "codeRuns"]
            if first and self.episode.domain in NAMES:
                self.gain *= float(slot.gains[NAMES.index(self.episode.domain)])
            self.preparations += 1
            self.evidence = apply_observation(self.evidence, finding(role, self.episode.domain))
            return
        right = self.episode.luck[number] < min(1.0, self.episode.chances[number, self.episode.level] * self.gain)
        text = self.episode.answers[number][0 if right else 1]
        if role == "answer":
            self.correct, self.answered_by, self.done = bool(right), number, True
            return
        self.preparations += 1
        self.evidence = apply_observation(self.evidence, {"kind": "attempt", "slot": slot.id, "text": text})


def finding(role: str, domain: str) -> dict[str, Any]:
    """What a helper's call brings: that it does is all there is to see, how much it helps is hidden."""
    if role == "search":
        return {"kind": "documents", "documents": [{"text": f"Facts about {domain}.", "source": "docs"}]}
    return {"kind": "code_run", "run": {"code": f'print("{domain}: computed")', "output": f"{domain}: computed\n"}}
