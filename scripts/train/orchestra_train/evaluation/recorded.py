"""The replay packs as scenarios, and as the tables that rows without a gateway are computed from."""

import gzip
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..replay import replay_folder
from .scenario import Reply, Scenario, Slot, Task

# No record holds latency: a second, and fifty tokens a second.
START_MS, MS_PER_TOKEN = 1000, 20
# Long and without a number or a letter to compare: the gateway cannot tell whether two of them agree.
UNTOLD = "no usable answer came of this, whatever was tried and however long it took"
UNCOMPARED = "an answer was given at some length, and nothing of it was recorded that could be compared"
PRIVACY = {"local": "local", "self-hosted": "self_hosted", "third-party": "any"}
ROSTERS = ("all", "seen", "unseen")


@dataclass(frozen=True)
class Table:
    """A whole pack under one price schedule. right, usd, tokens: [items, models]; answers too, or None.

    `splits` names the split of each item; `card_skills` [domains, models] are calibration accuracies.
    """

    pack: str
    items: list[dict[str, Any]]
    splits: np.ndarray
    domains: np.ndarray
    models: list[dict[str, Any]]
    cards: list[dict[str, Any]]
    prices: np.ndarray
    right: np.ndarray
    tokens: np.ndarray
    usd: np.ndarray
    answers: np.ndarray | None
    schedule: str = "list"

    def rows(self, split: str) -> np.ndarray:
        return np.flatnonzero(self.splits == split)


def read_table(pack: str, schedule: str = "list", roster: str = "all") -> Table:
    """`roster`: the default one, or its models that training may call (seen) or may not (unseen)."""
    root = replay_folder()
    splits = json.loads((root / "splits.json").read_text())
    described = json.loads((root / pack / "models.json").read_text())
    with gzip.open(root / pack / "items.jsonl.gz", "rt") as lines:
        items = [json.loads(line) for line in lines]
    models = [
        model
        for model in described["models"]
        if model["default_roster"] and (roster == "all" or model["held_out"] == (roster == "unseen"))
    ]
    columns = [model["index"] for model in models]
    stored = np.load(root / pack / "outcomes.npz")
    tokens = stored["out_tokens"][:, columns].astype(float)
    tokens[tokens < 0] = described.get("assumed_output_tokens") or 0
    prices = np.array([splits["price_schedules"][pack][schedule][model["id"]] for model in models], float)
    sent = np.array([item["input_tokens_sent"] for item in items], float)
    split_of = {item: name for name, ids in splits["items"][pack].items() for item in ids}
    cards = {card["anon_id"]: card for card in json.loads((root / "cards.json").read_text())["cards"][pack]}
    return Table(
        pack=pack,
        items=items,
        splits=np.array([split_of.get(item["id"], "none") for item in items]),
        domains=np.array([item["domain"] for item in items]),
        models=models,
        cards=[cards[model["anon_id"]] for model in models],
        prices=prices,
        right=(stored["correct"][:, columns] == 1).astype(float),
        tokens=tokens,
        usd=(sent[:, None] * prices[:, 0] + tokens * prices[:, 1]) / 1e6,
        answers=stored["answer_class"][:, columns].astype(int) if "answer_class" in stored else None,
        schedule=schedule,
    )


def replay_scenario(table: Table, rows: np.ndarray, card: str = "verbal", skills: bool = False) -> Scenario:
    """Every task meets the whole roster. The five worked examples that a recording was prompted with are not in the

    pack: they are charged for, but the gateway does not see them when it expects a cost.
    """
    slots = [_slot(table, column, card, skills) for column in range(len(table.models))]
    column_of = {slot.id: column for column, slot in enumerate(slots)}
    balanced = {"quality": 1.0, "cost": 0.1, "latency": 0.0, "privacy": 0.0}
    return Scenario(
        name=table.pack,
        slots={slot.id: slot for slot in slots},
        tasks=[Task(table.items[row]["prompt"], tuple(column_of), balanced) for row in rows],
        reply=lambda task, slot, _: _reply(table, int(rows[task]), column_of[slot]),
    )


def _slot(table: Table, column: int, card: str, skills: bool) -> Slot:
    known = table.cards[column]
    written = round(known.get("mean_output_tokens") or float(table.tokens[:, column].mean()))
    price = dict(zip(("input", "output"), table.prices[column].tolist(), strict=True))
    measured = {name: one["accuracy"] for name, one in known["by_domain"].items()} if skills else {}
    return Slot(
        id=f"answer-{column + 1}",
        quality=known["text"][card],
        price=price,
        latency_ms=START_MS + MS_PER_TOKEN * written,
        privacy=PRIVACY[table.models[column]["privacy_class"]],
        skills=measured,
        output_tokens=max(1, written),
    )


def _reply(table: Table, row: int, column: int) -> Reply:
    sent, written = int(table.items[row]["input_tokens_sent"]), int(table.tokens[row, column])
    text = _answer_text(table, row, column)
    return Reply(text, bool(table.right[row, column]), sent, written)


def _answer_text(table: Table, row: int, column: int) -> str:
    """Right and wrong are told apart by the recording, never by the words; equal classes agree."""
    if table.answers is None:
        return UNCOMPARED
    answer = table.answers[row, column]
    return f"\\boxed{{class-{answer}}}" if answer >= 0 else UNTOLD
