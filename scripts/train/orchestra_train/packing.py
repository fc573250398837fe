"""Many prompts with many branches in few rows: what begins alike is computed once.

A row is a trie of tokens. A token sees its ancestors and itself, and its position is its depth, so that states equal
those of rows of their own. Prompts of one problem differ late (another attempt, another wish), its calls in one word.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from .model import Decoder

# A tree joins a row when more than this share of its tokens stands there already: the rest of the row, which it does
# not see, costs attention all the same.
LEAST_SHARED = 0.5


@dataclass(frozen=True)
class Tree:
    """Token ids: a prefix, and branches that each see the prefix and themselves only."""

    prefix: list[int]
    branches: list[list[int]]

    def __len__(self) -> int:
        return len(self.prefix) + sum(map(len, self.branches))


@dataclass(frozen=True)
class Places:
    """Where a tree lies in its row: the end of its prefix, and each token of each branch."""

    prefix_end: int
    branches: list[list[int]]


@dataclass
class Row:
    """A trie that trees are added to. Token numbers are places; a parent comes before its children."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    _children: dict[tuple[int, int], int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.tokens)

    def shared(self, tokens: Sequence[int]) -> int:
        """How many of the tokens stand here already, from the first one on."""
        place = -1
        for count, token in enumerate(tokens):
            found = self._children.get((place, token))
            if found is None:
                return count
            place = found
        return len(tokens)

    def add(self, tree: Tree) -> Places:
        prefix = self._walk(-1, tree.prefix)
        end = prefix[-1] if prefix else -1
        return Places(end, [self._walk(end, branch) for branch in tree.branches])

    def _walk(self, place: int, tokens: Sequence[int]) -> list[int]:
        path = []
        for token in tokens:
            parent, place = place, self._children.setdefault((place, token), len(self.tokens))
            if place == len(self.tokens):
                self.tokens.append(token)
                self.parents.append(parent)
                self.depths.append(self.depths[parent] + 1 if parent >= 0 else 0)
            path.append(place)
        return path

    def mask(self) -> np.ndarray:
        """[T, T], true where a token (first) sees another."""
        seen = np.eye(len(self), dtype=bool)
        for place, parent in enumerate(self.parents):
            if parent >= 0:
                seen[place, :place] = seen[parent, :place]
        return seen


def shared_rows(trees: Sequence[Tree]) -> list[tuple[Row, dict[int, Places]]]:
    """Trees that begin alike in one row, by their numbers; shortest rows first."""
    rows: list[tuple[Row, dict[int, Places]]] = []
    for number, tree in enumerate(trees):
        least = LEAST_SHARED * len(tree)
        alike = next((one for one in rows if one[0].shared(tree.prefix) > least), None)
        if alike is None:
            alike = (Row(), {})
            rows.append(alike)
        alike[1][number] = alike[0].add(tree)
    return sorted(rows, key=lambda one: len(one[0]))


def batches_of(lengths: Sequence[int], most_tokens: int) -> Iterator[slice]:
    """Neighbours that are computed together, each as long as the last; a longer one is alone."""
    first = 0
    for number, length in enumerate(lengths):
        if number > first and (number - first + 1) * length > most_tokens:
            yield slice(first, number)
            first = number
    if first < len(lengths):
        yield slice(first, len(lengths))


def batch_inputs(rows: Sequence[Row], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """tokens, positions: [B, T]; mask: [B, T, T]. What fills up a shorter row sees itself alone and is never seen."""
    length = max(map(len, rows))
    tokens, positions = torch.zeros(2, len(rows), length, dtype=torch.long)
    mask = torch.eye(length, dtype=torch.bool).repeat(len(rows), 1, 1)
    for number, row in enumerate(rows):
        tokens[number, : len(row)] = torch.tensor(row.tokens)
        positions[number, : len(row)] = torch.tensor(row.depths)
        mask[number, : len(row), : len(row)] = torch.from_numpy(row.mask())
    return tokens.to(device), positions.to(device), mask.to(device)


def tree_states(model: Decoder, trees: Sequence[Tree], most_tokens: int) -> list[tuple[Tensor, list[Tensor]]]:
    """For each tree the state at its prefix's end [width] and those of each branch [tokens, width]."""
    found: dict[int, tuple[Tensor, list[Tensor]]] = {}
    rows = shared_rows(trees)
    for batch in batches_of([len(row) for row, _ in rows], most_tokens):
        part = rows[batch]
        states = model(*batch_inputs([row for row, _ in part], model.device))
        for own, (_, members) in zip(states, part, strict=True):
            for number, places in members.items():
                # One look-up a tree, whose gradient is one sum.
                sizes = [1, *map(len, places.branches)]
                end, *branches = own[[places.prefix_end, *sum(places.branches, [])]].split(sizes)
                found[number] = (end[0], branches)
    return [found[number] for number in range(len(trees))]


def branch_log_probabilities(
    model: Decoder, trees: Sequence[Tree], admissible: list[int], most_tokens: int = 2048
) -> list[Tensor]:
    """At each branch's end, log-probabilities among the admissible next tokens alone.

    -> [branches, admissible] each, on the CPU
    """
    ends = [torch.stack([branch[-1] for branch in branches]) for _, branches in tree_states(model, trees, most_tokens)]
    scores = model.logits(torch.cat(ends), admissible).log_softmax(-1).cpu()
    return list(scores.split([len(tree.branches) for tree in trees]))


def choice_log_probabilities(model: Decoder, trees: Sequence[Tree], most_tokens: int = 2048) -> list[Tensor]:
    """The locally masked product: each token among those that some choice with the same beginning has.

    -> [choices] each, on the CPU
    """
    forks = [_forks(tree.branches) for tree in trees]
    # Behind the last fork of a choice every factor is one.
    needed = [
        Tree(tree.prefix, [branch[: max(ways, default=0)] for branch, ways in zip(tree.branches, own, strict=True)])
        for tree, own in zip(trees, forks, strict=True)
    ]
    return [
        _masked_product(model, tree, own, end, branches)
        for tree, own, (end, branches) in zip(trees, forks, tree_states(model, needed, most_tokens), strict=True)
    ]


def _forks(choices: Sequence[list[int]]) -> list[dict[int, list[int]]]:
    """For each choice: the places where it could have gone on otherwise, with the tokens to go on with."""
    following: dict[tuple[int, ...], set[int]] = defaultdict(set)
    for choice in choices:
        for place, token in enumerate(choice):
            following[tuple(choice[:place])].add(token)
    ways = [{at: sorted(following[tuple(choice[:at])]) for at in range(len(choice))} for choice in choices]
    return [{at: tokens for at, tokens in one.items() if len(tokens) > 1} for one in ways]


def _masked_product(
    model: Decoder, tree: Tree, forks: Sequence[dict[int, list[int]]], prefix_end: Tensor, branches: Sequence[Tensor]
) -> Tensor:
    scored: dict[tuple[int, ...], Tensor] = {}
    totals = []
    for choice, ways, states in zip(tree.branches, forks, branches, strict=True):
        total = prefix_end.new_zeros(())
        for place, tokens in ways.items():
            beginning = tuple(choice[:place])
            if beginning not in scored:
                state = prefix_end if place == 0 else states[place - 1]
                scored[beginning] = model.logits(state, tokens).log_softmax(-1)
            total = total + scored[beginning][tokens.index(choice[place])]
        totals.append(total)
    return torch.stack(totals).cpu()
