"""Recorded outcomes of real models on real questions: read where they lie, never copied."""

import gzip
import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[3]
PACKS = ("llmrouter", "zeroeval", "mmlu_pro")


def replay_folder() -> Path:
    return Path(os.environ.get("ORCHESTRA_REPLAY", REPOSITORY.parent / "shared/data/replay"))


@dataclass(frozen=True)
class Pack:
    name: str
    ids: list[str]
    prompts: list[str]
    domains: np.ndarray
    # Items by models of the default roster: 1, 0, or -1 where nothing was recorded.
    correct: np.ndarray
    # Equal numbers are equal answers, negative ones no answer; None where answers were not recorded.
    answers: np.ndarray | None


def read_split(pack: str, split: str) -> Pack:
    folder = replay_folder() / pack
    wanted = set(json.loads((replay_folder() / "splits.json").read_text())["items"][pack][split])
    with gzip.open(folder / "items.jsonl.gz", "rt") as lines:
        items = [json.loads(line) for line in lines]
    rows = [row for row, item in enumerate(items) if item["id"] in wanted]
    models = json.loads((folder / "models.json").read_text())["models"]
    roster = [model["index"] for model in models if model["default_roster"]]
    outcomes = np.load(folder / "outcomes.npz")
    return Pack(
        name=pack,
        ids=[items[row]["id"] for row in rows],
        prompts=[items[row]["prompt"] for row in rows],
        domains=np.array([items[row]["domain"] for row in rows]),
        correct=outcomes["correct"][np.ix_(rows, roster)].astype(int),
        answers=outcomes["answer_class"][np.ix_(rows, roster)].astype(int) if "answer_class" in outcomes else None,
    )
