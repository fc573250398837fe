"""Packed lists, asked as `lists` asks them: names, statements and wishes, of the lower layers alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .batches import Batch, block_mask, name_odds, wish_losses
from .hints import Probes
from .lists import GRADED
from .packed import Packed
from .reader import Reader


@dataclass(frozen=True)
class Asked:
    """How often a step asks each question, of all its lists together: so every name weighs alike, not every list."""

    named: int
    named_own: int
    listed_grades: int
    listed_wishes: int


@dataclass(frozen=True)
class ListLoss:
    """Part of the step's loss, a scalar; how many answers are right, [4] in the order of `Asked`."""

    loss: Tensor
    right: Tensor


def asked_of(packed: Packed, numbers: Sequence[int]) -> Asked:
    """`numbers`: of the trees of one step."""

    def within(starts: np.ndarray, values: np.ndarray) -> int:
        return sum(int(values[starts[tree] : starts[tree + 1]].sum()) for tree in numbers)

    return Asked(
        int(packed.names[numbers].sum()),
        within(packed.name_starts, packed.meant),
        within(packed.statement_starts, packed.statement_grades.any(-1)),
        int((packed.wish_grades[numbers] >= 0).sum()),
    )


def list_batch_loss(reader: Reader, probes: Probes, batch: Batch, asked: Asked) -> ListLoss:
    """Over the batches of a step the sum of `list_loss` and `wish_list_loss`. `asked`: by the whole step."""
    on = batch.to(reader.model.device)
    mask = block_mask(on.trees, on.branches)
    _, layers = reader.model.midway(on.tokens, on.positions, mask, {probes.matched}, depth=probes.matched)
    matched = layers[probes.matched].flatten(0, 1)
    odds = name_odds(probes, on, matched)
    fits = on.meant > 0
    names = F.binary_cross_entropy_with_logits(odds, on.meant, reduction="sum")
    found = probes.grades(matched[on.statement_places]).log_softmax(-1)
    graded = on.statement_grades.any(-1)
    told = (found.argmax(-1) == on.statement_grades.argmax(-1)) & graded
    grades = -(on.statement_grades * found).sum()
    wishes, wished = wish_losses(probes, on, matched)
    loss = (
        names / max(1, asked.named)
        + GRADED * grades / max(1, asked.listed_grades)
        + wishes.sum() / max(1, asked.listed_wishes)
    )
    right = ((odds > 0) == fits, (odds > 0) & fits, told, wished)
    return ListLoss(loss, torch.stack([one.sum() for one in right]))
