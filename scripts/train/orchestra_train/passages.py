"""Texts of which a policy wrote a part: log-probabilities of its own tokens, whatever was read in between."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .model import Decoder
from .packing import Tree, tree_states

MOST_TOKENS = 1024


@dataclass(frozen=True)
class Passage:
    """What stands behind a prompt; `own` [ids] marks the tokens that are learnt."""

    prompt: tuple[int, ...]
    ids: tuple[int, ...]
    own: tuple[bool, ...]


def own_log_probabilities(model: Decoder, passages: Sequence[Passage]) -> list[Tensor]:
    """[own tokens] each, differentiable, on the CPU; a prompt that several have in common is computed once."""
    by_prompt: dict[tuple[int, ...], list[int]] = {}
    for number, passage in enumerate(passages):
        by_prompt.setdefault(passage.prompt, []).append(number)
    trees = [Tree(list(prompt), [list(passages[at].ids) for at in numbers]) for prompt, numbers in by_prompt.items()]
    found: dict[int, Tensor] = {}
    for numbers, (end, branches) in zip(by_prompt.values(), tree_states(model, trees, MOST_TOKENS), strict=True):
        for number, branch in zip(numbers, branches, strict=True):
            found[number] = _own(model, passages[number], torch.cat([end[None], branch[:-1]]))
    return [found[number] for number in range(len(passages))]


def _own(model: Decoder, passage: Passage, before: Tensor) -> Tensor:
    """before: the state in front of each token [ids, width]"""
    own = [place for place, learnt in enumerate(passage.own) if learnt]
    ids = torch.tensor([passage.ids[place] for place in own], dtype=torch.long, device=before.device)
    return model.logits(before[own]).log_softmax(-1).gather(1, ids[:, None])[:, 0].cpu()
