"""Many prompts with many branches in one row: a block mask and position ids make them equal to rows of their own."""

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass

import torch
from torch import Tensor

from .model import Decoder


@dataclass(frozen=True)
class Tree:
    """Token ids: a prefix, and branches that each see the prefix and themselves only."""

    prefix: list[int]
    branches: list[list[int]]

    def __len__(self) -> int:
        return len(self.prefix) + sum(map(len, self.branches))


@dataclass(frozen=True)
class Row:
    """tokens, positions: [T]; mask: [T, T]; for each tree the place of its prefix's end and of each branch's first."""

    tokens: Tensor
    positions: Tensor
    mask: Tensor
    prefix_ends: list[int]
    branch_starts: list[list[int]]

    def inputs(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens, positions and mask as a batch of one row."""
        return self.tokens[None].to(device), self.positions[None].to(device), self.mask[None].to(device)


def pack(trees: Sequence[Tree]) -> Row:
    tokens: list[int] = []
    positions: list[int] = []
    owners: list[tuple[int, int]] = []
    ends, starts = [], []
    for number, tree in enumerate(trees):
        tokens += tree.prefix
        positions += range(len(tree.prefix))
        owners += [(number, -1)] * len(tree.prefix)
        ends.append(len(tokens) - 1)
        starts.append([])
        for branch_number, branch in enumerate(tree.branches):
            starts[-1].append(len(tokens))
            tokens += branch
            positions += range(len(tree.prefix), len(tree.prefix) + len(branch))
            owners += [(number, branch_number)] * len(branch)
    mask = block_mask(*torch.tensor(owners).T)
    return Row(torch.tensor(tokens), torch.tensor(positions), mask, ends, starts)


def block_mask(trees: Tensor, branches: Tensor) -> Tensor:
    """Numbers of each token's tree and branch, -1 for a prefix, [..., T] -> [..., T, T], true where seen."""
    same_tree = trees[..., :, None] == trees[..., None, :]
    visible = (branches[..., None, :] == -1) | (branches[..., :, None] == branches[..., None, :])
    return (same_tree & visible).tril()


def rows_of(trees: Sequence[Sized], most_tokens: int) -> Iterator[list[int]]:
    """Numbers of the trees that share a row, in order; a longer tree has a row of its own."""
    row: list[int] = []
    used = 0
    for number, tree in enumerate(trees):
        if row and used + len(tree) > most_tokens:
            yield row
            row, used = [], 0
        row.append(number)
        used += len(tree)
    if row:
        yield row


def tree_states(model: Decoder, trees: Sequence[Tree], most_tokens: int) -> list[tuple[Tensor, list[Tensor]]]:
    """For each tree the state at its prefix's end [width] and those of each branch [tokens, width]."""
    found = []
    for numbers in rows_of(trees, most_tokens):
        row = pack([trees[number] for number in numbers])
        states = model(*row.inputs(model.device))[0]
        for place, number in enumerate(numbers):
            starts = row.branch_starts[place]
            lengths = [len(branch) for branch in trees[number].branches]
            branches = [states[start : start + length] for start, length in zip(starts, lengths, strict=True)]
            found.append((states[row.prefix_ends[place]], branches))
    return found


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
    return [
        _masked_product(model, tree, end, branches)
        for tree, (end, branches) in zip(trees, tree_states(model, trees, most_tokens), strict=True)
    ]


def _masked_product(model: Decoder, tree: Tree, prefix_end: Tensor, branches: list[Tensor]) -> Tensor:
    totals = []
    for choice, states in zip(tree.branches, branches, strict=True):
        total = prefix_end.new_zeros(())
        for place, token in enumerate(choice):
            beginning = choice[:place]
            next_ids = sorted({o[place] for o in tree.branches if o[:place] == beginning and len(o) > place})
            # Where nothing branches off the factor is one, and nothing need be computed.
            if len(next_ids) > 1:
                state = prefix_end if place == 0 else states[place - 1]
                scores = model.logits(state, next_ids).log_softmax(-1)
                total = total + scores[next_ids.index(token)]
        totals.append(total)
    return torch.stack(totals).cpu()
