"""Episodes of recorded outcomes: real questions, real models, their own answers, tokens and prices."""

import gzip
import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..contract.beliefs import LEAST_CHANCE, spread_over_levels
from ..replay import replay_folder
from .episode import AXES, PROFILES, Episode
from .roster import LEVELS, NAMES, WorldSlot

# No record holds latency: a second, and fifty tokens a second.
START_MS, MS_PER_TOKEN = 1000.0, 20.0
# Of a recorded answer whose tokens were not recorded.
ASSUMED_TOKENS = 200
_UNTOLD = "I have thought about this at some length and give my view, which cannot be compared"
_PRIVACY = {"local": "local", "self-hosted": "self_hosted", "third-party": "any"}


@dataclass(frozen=True)
class RecordedPack:
    """One split of one pack, default roster. Arrays are [items, models]; all but `correct` may be None.

    `rates` tell how often the model is right on such items.
    """

    items: list[dict[str, Any]]
    models: list[dict[str, Any]]
    cards: dict[str, str]
    correct: np.ndarray
    tokens: np.ndarray | None
    classes: np.ndarray | None
    rates: np.ndarray | None = None


def read_recorded(pack: str, split: str, card: str = "verbal") -> RecordedPack:
    root = replay_folder()
    folder = root / pack
    wanted = set(json.loads((root / "splits.json").read_text())["items"][pack][split])
    with gzip.open(folder / "items.jsonl.gz", "rt") as lines:
        everything = [json.loads(line) for line in lines]
    rows = [row for row, item in enumerate(everything) if item["id"] in wanted]
    models = [one for one in json.loads((folder / "models.json").read_text())["models"] if one["default_roster"]]
    stored = np.load(folder / "outcomes.npz")
    cells = np.ix_(rows, [one["index"] for one in models])
    cards = {one["anon_id"]: one["text"][card] for one in json.loads((root / "cards.json").read_text())["cards"][pack]}
    return RecordedPack(
        [everything[row] for row in rows],
        models,
        cards,
        stored["correct"][cells],
        stored["out_tokens"][cells] if "out_tokens" in stored else None,
        stored["answer_class"][cells] if "answer_class" in stored else None,
    )


def recorded_episode(pack: RecordedPack, row: int, rng: np.random.Generator, most_slots: int = 8) -> Episode:
    """A random part of the roster on one item; what happened is certain, whatever was likely.

    Chances are told by the rates; without them they are 0 or 1, as it happened.
    """
    known = np.flatnonzero(pack.correct[row] >= 0)
    columns = rng.permutation(known)[: rng.integers(min(3, len(known)), min(most_slots, len(known)) + 1)]
    profile = list(PROFILES)[rng.integers(len(PROFILES))]
    right = pack.correct[row, columns] > 0
    item = pack.items[row]
    if pack.rates is None:
        chances = np.repeat(right[:, None].astype(float), len(LEVELS), 1)
    else:
        chances = np.array([spread_over_levels(float(rate), list(LEVELS)) for rate in pack.rates[row, columns]])
    return Episode(
        problem=item["prompt"],
        domain=item["domain"],
        level=0,
        slots=tuple(
            _slot(pack, row, column, f"answer-{place}", float(of_slot.mean()))
            for place, (column, of_slot) in enumerate(zip(columns, chances, strict=True), start=1)
        ),
        chances=chances,
        luck=np.where(right, 0.0, 1.0),
        answers=tuple(_answers(pack, row, column) for column in columns),
        weights=dict(zip(AXES, PROFILES[profile], strict=True)),
        instruction="",
        failures=0.0,
        comparable=pack.classes is not None,
        recorded=True,
    )


def _slot(pack: RecordedPack, row: int, column: int, slot_id: str, chance: float) -> WorldSlot:
    item, model = pack.items[row], pack.models[column]
    tokens = ASSUMED_TOKENS if pack.tokens is None else max(0, int(pack.tokens[row, column]))
    price = model["price"]
    card = pack.cards[model["anon_id"]]
    skill = math.log(max(LEAST_CHANCE, chance) / max(LEAST_CHANCE, 1 - chance))
    skills, gains = np.full(len(NAMES), skill), np.ones(len(NAMES))
    cost = (price["input"] * item["input_tokens_sent"] + price["output"] * tokens) / 1e6
    latency = START_MS + MS_PER_TOKEN * tokens
    return WorldSlot(slot_id, "answer", card, skills, gains, cost, latency, _PRIVACY[model["privacy_class"]])


def _answers(pack: RecordedPack, row: int, column: int) -> tuple[str, str]:
    """Right and wrong text are told apart by the recording, never by their words; equal classes agree."""
    answer = -1 if pack.classes is None else int(pack.classes[row, column])
    text = f"The answer is {answer}." if answer >= 0 else _UNTOLD
    recorded = bool(pack.correct[row, column] > 0)
    return (text, "") if recorded else ("", text)
