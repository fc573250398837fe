"""What training plays: the simulated world and, for a share of its episodes, recorded outcomes of real models.

Of the packs' train split, without the models and domains that they hold back.
"""

import numpy as np

from .reading.outcomes import HELD_OUT_DOMAINS, HELD_OUT_ENTRIES, MOST_CODE_POINTS, domain_table
from .replay import PACKS
from .world.episode import Episode, fresh_episode
from .world.replay_world import RecordedPack, read_recorded, recorded_episode
from .world.roster import WorldShape
from .world.texts import Rng

# As figures by domain, and in words.
CARDS = ("exact", "verbal")
# Where fewer models were recorded there is nothing to choose.
LEAST_MODELS = 2


class EpisodeSource:
    """`recorded` is the share of episodes that replay recorded outcomes.

    @raises SystemExit where they are asked for and the packs do not lie in `ORCHESTRA_REPLAY`.
    """

    def __init__(self, shape: WorldShape, recorded: float = 0.0) -> None:
        self._shape = shape
        self._recorded = recorded
        self._packs = _train_packs() if recorded > 0 else []

    def fresh(self, rng: Rng) -> Episode:
        if not self._packs or rng.random() >= self._recorded:
            return fresh_episode(rng, self._shape)
        pack = self._packs[rng.integers(len(self._packs))]
        return recorded_episode(pack, int(rng.integers(len(pack.items))), rng)


def _train_packs() -> list[RecordedPack]:
    """Each pack once with each kind of cards."""
    try:
        return [_open_part(name, read_recorded(name, "train", card)) for name in PACKS for card in CARDS]
    except FileNotFoundError as missing:
        raise SystemExit(
            f"recorded episodes: there is no {missing.filename}; ORCHESTRA_REPLAY names the folder of the replay packs"
        ) from None


def _open_part(name: str, pack: RecordedPack) -> RecordedPack:
    """What training may see, and how often each model is right in each domain."""
    models = np.array([not model["held_out"] for model in pack.models])
    known = (pack.correct[:, models] >= 0).sum(1)
    rows = [
        row
        for row, item in enumerate(pack.items)
        if item["domain"] not in HELD_OUT_DOMAINS
        and len(item["prompt"]) <= MOST_CODE_POINTS
        and known[row] >= LEAST_MODELS
    ]
    rates = domain_table(name)
    correct = pack.correct[rows][:, models]
    return RecordedPack(
        items=[pack.items[row] for row in rows],
        models=[model for model in pack.models if not model["held_out"]],
        cards={anon_id: HELD_OUT_ENTRIES.sub("", text) for anon_id, text in pack.cards.items()},
        correct=correct,
        tokens=None if pack.tokens is None else _usual_tokens(pack.tokens[rows][:, models], correct >= 0),
        classes=None if pack.classes is None else pack.classes[rows][:, models],
        rates=np.array([rates[pack.items[row]["domain"]][models] for row in rows]),
    )


def _usual_tokens(tokens: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Each model's mean, on every item: the price is seen beforehand, and an answer's own length hints at its outcome.

    [items, models] both
    """
    means = np.where(known, np.maximum(tokens, 0), 0).sum(0) / np.maximum(1, known.sum(0))
    return np.tile(means, (len(tokens), 1))
