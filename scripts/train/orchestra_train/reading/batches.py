"""Packed trees in rows of one width, with the places of all that is asked of them; and the loss of such a batch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .hints import Probes
from .outcomes import LEAST_CHANCE, MOST_CHANCE
from .packed import Packed
from .reader import Reader
from .train import WISHING


@dataclass(frozen=True)
class Batch:
    """tokens, positions, trees, branches: [rows, width]. Places count through all rows.

    Weights of all batches of a step sum to at most 1, for branches and for each kind of hint.
    """

    tokens: Tensor
    positions: Tensor
    trees: Tensor
    branches: Tensor
    ends: Tensor
    targets: Tensor
    right: Tensor
    of_wishes: Tensor
    weights: Tensor
    problem_ends: Tensor
    prefix_ends: Tensor
    settled: Tensor
    settled_weights: Tensor
    wish_grades: Tensor
    wish_weights: Tensor
    name_places: Tensor
    name_problems: Tensor
    meant: Tensor
    name_weights: Tensor
    statement_places: Tensor
    bearings: Tensor
    statement_weights: Tensor
    statement_grades: Tensor
    grade_weights: Tensor

    def to(self, device: torch.device) -> "Batch":
        return Batch(*(part.to(device, non_blocking=True) for part in vars(self).values()))


def batches_of(packed: Packed, numbers: Sequence[int], width: int, rows_at_once: int) -> Iterator[Batch]:
    """Trees by number; batches are made one by one, while the device computes the one before."""
    numbers = np.asarray(numbers)
    lengths = np.diff(packed.tree_starts)[numbers]
    # Long ones first fill rows better.
    numbers = numbers[np.argsort(-lengths, kind="stable")]
    rows = [numbers[places] for places in rows_of(np.diff(packed.tree_starts)[numbers].tolist(), width)]
    for first in range(0, len(rows), rows_at_once):
        yield _batch(packed, rows[first : first + rows_at_once], width, len(numbers))


def rows_of(lengths: Sequence[int], width: int) -> Iterator[list[int]]:
    """Numbers of the trees that share a row, in order; a longer tree has a row of its own."""
    row: list[int] = []
    used = 0
    for number, length in enumerate(lengths):
        if row and used + length > width:
            yield row
            row, used = [], 0
        row.append(number)
        used += length
    if row:
        yield row


def block_mask(trees: Tensor, branches: Tensor) -> Tensor:
    """Numbers of each token's tree and branch, -1 for a prefix, [..., T] -> [..., T, T], true where seen."""
    same_tree = trees[..., :, None] == trees[..., None, :]
    visible = (branches[..., None, :] == -1) | (branches[..., :, None] == branches[..., None, :])
    return (same_tree & visible).tril()


def _batch(packed: Packed, rows: Sequence[np.ndarray], width: int, of_step: int) -> Batch:
    # What fills a row up belongs to a tree of its own.
    tokens, positions, branches = (np.zeros((len(rows), width), np.int32) for _ in range(3))
    trees = np.full((len(rows), width), -1, np.int32)
    columns: list[list[np.ndarray]] = []
    for number, row in enumerate(rows):
        used = 0
        for place, tree in enumerate(row):
            first, last = packed.tree_starts[tree : tree + 2]
            into = slice(used, used + last - first)
            tokens[number, into] = packed.tokens[first:last]
            positions[number, into] = packed.positions[first:last]
            branches[number, into] = packed.owners[first:last]
            trees[number, into] = place
            columns.append(_asked(packed, tree, number * width + used, len(columns), of_step))
            used += last - first
    arrays = (tokens, positions, trees, branches, *(np.concatenate(parts) for parts in zip(*columns, strict=True)))
    return Batch(*map(torch.from_numpy, arrays))


def _asked(packed: Packed, tree: int, offset: int, problem: int, of_step: int) -> list[np.ndarray]:
    """What is asked of one tree that begins at a place, in the order of `Batch`."""
    own = slice(*packed.branch_starts[tree : tree + 2])
    names = slice(*packed.name_starts[tree : tree + 2])
    told = slice(*packed.statement_starts[tree : tree + 2])
    graded = packed.statement_grades[told].any(-1)
    settled = packed.settled[tree : tree + 1]
    wished = packed.wish_grades[tree : tree + 1].astype(np.int64)
    of_wish = np.full(own.stop - own.start, (wished >= 0).any())
    return [
        packed.branch_ends[own] - packed.tree_starts[tree] + offset,
        packed.targets[own],
        packed.right[own],
        of_wish,
        _even(np.ones(len(of_wish)), of_step) * np.where(of_wish, WISHING, 1).astype(np.float32),
        packed.problem_ends[tree : tree + 1].astype(np.int64) + offset,
        packed.prefix_ends[tree : tree + 1] - packed.tree_starts[tree] + offset,
        np.nan_to_num(settled),
        _even(~np.isnan(settled), of_step),
        wished,
        _even(wished >= 0, of_step),
        packed.name_places[names].astype(np.int64) + offset,
        np.full(names.stop - names.start, problem),
        packed.meant[names],
        _even(np.ones(names.stop - names.start), of_step),
        packed.statement_places[told].astype(np.int64) + offset,
        packed.bearings[told],
        _even(np.ones(told.stop - told.start), of_step),
        packed.statement_grades[told],
        _even(graded, of_step),
    ]


def _even(counted: np.ndarray, of_step: int) -> np.ndarray:
    """Each tree weighs alike, and within it whatever counts."""
    return (counted / max(1.0, counted.sum()) / of_step).astype(np.float32)


@dataclass(frozen=True)
class BatchLoss:
    """Parts of the step's mean losses, scalars; how many grades are the likeliest target, of how many, of cards and of
    wishes."""

    answers: Tensor
    hints: Tensor
    right: Tensor
    graded: Tensor
    wished: Tensor
    wish_graded: Tensor


def batch_loss(reader: Reader, probes: Probes, batch: Batch) -> BatchLoss:
    """As one example at a time: grades, recorded outcomes (`outcomes`) and hints (`midway`)."""
    device = reader.model.device
    on = batch.to(device)
    mask = block_mask(on.trees, on.branches)
    states, layers = reader.model.midway(on.tokens, on.positions, mask, {probes.matched, probes.read})
    found = reader.model.logits(states.flatten(0, 1)[on.ends], reader.grade_ids).log_softmax(-1)
    chances = torch.tensor(reader.contract["chances"], device=device)
    chance = (found.exp() @ chances).clamp(LEAST_CHANCE, MOST_CHANCE)
    recorded = ~on.right.isnan()
    graded = ~(recorded | on.of_wishes)
    happened = -torch.where(on.right > 0.5, chance, 1 - chance).log()
    answers = (on.weights * torch.where(recorded, happened, -(on.targets * found).sum(-1))).sum()
    hits = found.argmax(-1) == on.targets.argmax(-1)
    hints = _hint_loss(probes, on, layers[probes.matched].flatten(0, 1), layers[probes.read].flatten(0, 1))
    told = (hits & graded, graded, hits & on.of_wishes, on.of_wishes)
    return BatchLoss(answers, hints, *(one.sum() for one in told))


def _hint_loss(probes: Probes, batch: Batch, matched: Tensor, read: Tensor) -> Tensor:
    odds = name_odds(probes, batch, matched)
    names = F.binary_cross_entropy_with_logits(odds, batch.meant, batch.name_weights, reduction="sum")
    odds = probes.settled(matched[batch.prefix_ends])
    settled = F.binary_cross_entropy_with_logits(odds, batch.settled, batch.settled_weights, reduction="sum")
    bearings = F.cross_entropy(probes.bearings(read[batch.statement_places]), batch.bearings, reduction="none")
    found = probes.grades(matched[batch.statement_places]).log_softmax(-1)
    grades = -(batch.statement_grades * found).sum(-1)
    wishes, _ = wish_losses(probes, batch, matched)
    wishes = (batch.wish_weights * wishes).sum()
    return names + settled + wishes + (batch.statement_weights * bearings + batch.grade_weights * grades).sum()


def name_odds(probes: Probes, batch: Batch, matched: Tensor) -> Tensor:
    """matched: [tokens, width] -> log-odds that each name fits its problem [names]"""
    odds = probes.matches(matched[batch.problem_ends], matched[batch.name_places])
    return odds.gather(0, batch.name_problems[None])[0]


def wish_losses(probes: Probes, batch: Batch, matched: Tensor) -> tuple[Tensor, Tensor]:
    """matched: [tokens, width] -> nats, and whether the likeliest grade is right [trees, axes], none of no wish"""
    odds = probes.wishes(matched[batch.prefix_ends])
    losses = F.cross_entropy(odds.flatten(0, 1), batch.wish_grades.flatten(), ignore_index=-1, reduction="none")
    return losses.view_as(batch.wish_grades), odds.argmax(-1) == batch.wish_grades
