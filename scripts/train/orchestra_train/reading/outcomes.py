"""The reader held to recorded outcomes: real questions, cards measured on other items, right or wrong as recorded."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from ..contract.evidence import no_evidence
from ..replay import read_split
from ..world.replay_world import RecordedPack, read_recorded
from .reader import Reader
from .rosters import Reading, Tool
from .wordings import Rng

PACKS = ("llmrouter", "zeroeval", "mmlu_pro")
CARDS = ("exact", "exact", "verbal")
MOST_CODE_POINTS = 1200
LEAST_CHANCE, MOST_CHANCE = 0.01, 0.99
# Of mmlu_pro; `splits.json` names them.
HELD_OUT_DOMAINS = ("engineering", "history", "law", "psychology")
# Their lines in cards of figures. Cards in words keep them: there they stand in lists.
_ENTRY = rf" (?:{'|'.join(HELD_OUT_DOMAINS)}) \d+%"
HELD_OUT_ENTRIES = re.compile(rf"(?<=:)(?:{_ENTRY};)+|;{_ENTRY}(?=[;.])")


@cache
def recorded_pack(pack: str, split: str, card: str) -> RecordedPack:
    return read_recorded(pack, split, card)


def recorded_reading(rng: Rng, pack: RecordedPack, row: int, count: int, held_out: bool = True) -> Reading:
    """Some models of the roster on one item; each tool's value is 1 if its answer was right, else 0.

    Without `held_out` neither the models nor the subjects on cards that the packs keep back from training.
    """
    open_ = np.array([held_out or not model["held_out"] for model in pack.models])
    columns = rng.permutation(np.flatnonzero((pack.correct[row] >= 0) & open_))[:count]
    item = pack.items[row]
    tools = tuple(_tool(pack, column, row, held_out) for column in columns)
    return Reading(item["prompt"], item["domain"], no_evidence(), tools, recorded=True)


def _tool(pack: RecordedPack, column: int, row: int, held_out: bool) -> Tool:
    model = pack.models[column]
    card = pack.cards[model["anon_id"]]
    if not held_out:
        card = HELD_OUT_ENTRIES.sub("", card)
    return Tool("answer", card, float(pack.correct[row, column]))


def fresh_recorded(rng: Rng, count: int, cards: Sequence[str] = CARDS) -> Reading:
    """An item of a train split with a few models; long prompts and held-out subjects are passed over."""
    pack = recorded_pack(PACKS[rng.integers(len(PACKS))], "train", cards[rng.integers(len(cards))])
    while True:
        item = pack.items[row := int(rng.integers(len(pack.items)))]
        if len(item["prompt"]) <= MOST_CODE_POINTS and item["domain"] not in HELD_OUT_DOMAINS:
            return recorded_reading(rng, pack, row, count, held_out=False)


def outcome_loss(grades: Tensor, chances: Tensor, reading: Reading) -> Tensor:
    """Nats a call, of what was recorded under the mean of the grades' chances. grades: [tools, 5] log-probabilities."""
    chance = (grades.exp() @ chances).clamp(LEAST_CHANCE, MOST_CHANCE)
    right = torch.tensor([tool.value for tool in reading.tools])
    return torch.nn.functional.binary_cross_entropy(chance, right)


@dataclass(frozen=True)
class Outcomes:
    """Of one pack and split: the reader's grade shares [calls, 5], right or wrong [calls], the table's chance."""

    shares: np.ndarray
    right: np.ndarray
    table: np.ndarray


@torch.no_grad()
def read_outcomes(reader: Reader, pack: str, split: str, card: str, items: int, cards: int, seed: int = 5) -> Outcomes:
    """A random part of the items with some models each, beside the domain table fitted to the train split."""
    recorded = recorded_pack(pack, split, card)
    rng = np.random.default_rng(seed)
    shares, right, table = [], [], []
    rates = domain_table(pack)
    for row in rng.permutation(len(recorded.items))[:items]:
        item = recorded.items[row]
        known = np.flatnonzero(recorded.correct[row] >= 0)
        columns = np.random.default_rng([seed, int(row)]).permutation(known)[:cards]
        reading = recorded_reading(np.random.default_rng([seed, int(row)]), recorded, row, cards)
        [grades] = reader.grades([reader.tree(reading)])
        shares.append(grades.exp().numpy())
        right += [tool.value for tool in reading.tools]
        table += rates[item["domain"]][columns].tolist()
    return Outcomes(np.concatenate(shares), np.array(right), np.array(table))


def domain_table(pack: str) -> dict[str, np.ndarray]:
    """How often each model of the roster is right in a known domain, on the train split, shrunk to its overall rate."""
    train = read_split(pack, "train")
    known = train.correct >= 0
    right = train.correct * known
    overall = right.sum(0) / known.sum(0)
    rates = {}
    for domain in np.unique(train.domains):
        of_domain = train.domains == domain
        rates[str(domain)] = (right[of_domain].sum(0) + 10 * overall) / (known[of_domain].sum(0) + 10)
    return rates


def unlikelihood(chance: np.ndarray, right: np.ndarray) -> float:
    chance = chance.clip(LEAST_CHANCE, MOST_CHANCE)
    return float(-np.log(np.where(right > 0.5, chance, 1 - chance)).mean())


def fit_chances(shares: np.ndarray, right: np.ndarray) -> np.ndarray:
    """What the five grades stand for, rising, so that the mean over a call's grades is most likely."""

    def chances(steps: np.ndarray) -> np.ndarray:
        parts = np.exp(steps)
        return (np.cumsum(parts)[:-1] / parts.sum()).clip(LEAST_CHANCE, MOST_CHANCE)

    found = minimize(
        lambda steps: unlikelihood(shares @ chances(steps), right),
        np.zeros(6),
        method="Nelder-Mead",
        options={"maxiter": 3000},
    )
    return chances(found.x)
