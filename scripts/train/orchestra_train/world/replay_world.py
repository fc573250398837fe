"""Episodes of recorded outcomes: real questions, real models, their own answers, tokens and prices."""

import gzip
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..replay import replay_folder
from .episode import AXES, PROFILES, Episode
from .roster import NAMES, WorldSlot

# No record holds latency: a second, and fifty tokens a second.
START_MS, MS_PER_TOKEN = 1000.0, 20.0
# Of a recorded answer whose tokens were not recorded.
ASSUMED_TOKENS = 200
_UNTOLD = "I have thought about this at some length and give my view, which cannot be compared"
_PRIVACY = {"local": "local", "self-hosted": "self_hosted", "third-party": "any"}


@dataclass(frozen=True)
class RecordedPack:
    """One split of one pack, default roster. correct, tokens, classes: [items, models]; classes may be None."""

    items: list[dict[str, Any]]
    models: list[dict[str, Any]]
    cards: dict[str, str]
    correct: np.ndarray
    tokens: np.ndarray | None
    classes: np.ndarray | None


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
    """A random part of the roster on one item; the recorded outcome is certain, so chances are 0 or 1."""
    known = np.flatnonzero(pack.correct[row] >= 0)
    columns = rng.permutation(known)[: rng.integers(min(3, len(known)), min(most_slots, len(known)) + 1)]
    profile = list(PROFILES)[rng.integers(len(PROFILES))]
    right = pack.correct[row, columns].astype(float)
    item = pack.items[row]
    return Episode(
        problem=item["prompt"],
        domain=item["domain"],
        level=0,
        slots=tuple(_slot(pack, item, row, column, place) for place, column in enumerate(columns, start=1)),
        chances=np.repeat(right[:, None], 2, 1),
        luck=np.full(len(columns), 0.5),
        answers=tuple(_answers(pack, row, column) for column in columns),
        weights=dict(zip(AXES, PROFILES[profile], strict=True)),
        instruction="",
        failures=0.0,
        comparable=pack.classes is not None,
    )


def _slot(pack: RecordedPack, item: dict[str, Any], row: int, column: int, place: int) -> WorldSlot:
    model = pack.models[column]
    tokens = ASSUMED_TOKENS if pack.tokens is None else max(0, int(pack.tokens[row, column]))
    price = model["price"]
    cost = (price["input"] * item["input_tokens_sent"] + price["output"] * tokens) / 1e6
    privacy = _PRIVACY[model["privacy_class"]]
    nothing = np.zeros(len(NAMES))
    latency = START_MS + MS_PER_TOKEN * tokens
    return WorldSlot(
        f"answer-{place}", "answer", pack.cards[model["anon_id"]], nothing, nothing + 1, cost, latency, privacy
    )


def _answers(pack: RecordedPack, row: int, column: int) -> tuple[str, str]:
    """Right and wrong text are told apart by the recording, never by their words; equal classes agree."""
    answer = -1 if pack.classes is None else int(pack.classes[row, column])
    text = f"The answer is {answer}." if answer >= 0 else _UNTOLD
    recorded = bool(pack.correct[row, column] > 0)
    return (text, "") if recorded else ("", text)
