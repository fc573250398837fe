"""A policy that writes its calls freely, as an 8B with thoughts does, instead of choosing among scored ones.

What it writes may be no call at all. Such a run ends there with outcome 0 and stays in its group, where the released
code of ToolOrchestra takes it out of the batch; its advantage falls on the malformed turn alone. A large model needs
an engine for its rollouts (`sampling`).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from .contract.cut import trim
from .contract.load import Contract
from .contract.parse import parse_decision
from .model import Decoder
from .passages import Passage, own_log_probabilities
from .policy import SlotsPolicy, Turn
from .processes import gather_parts, own_part
from .rollout import Rollout, Written
from .sampling import Prompt, Sampler, TorchSampler
from .tokenizer import TextTokenizer
from .world.episode import Episode, Run

MOST_TOKENS = 64
# Texts of another engine: no token weighs more than this for having become likelier.
IMPORTANCE_CAP = 2.0


class WritingPolicy(SlotsPolicy):
    """`slots-1` and `slots-2` over the whole vocabulary. Log-probabilities are those of ordinary tokens."""

    def __init__(
        self,
        model: Decoder,
        tokenizer: TextTokenizer,
        contract: Contract,
        most: int = MOST_TOKENS,
        sampler: Sampler | None = None,
        thinks: bool = False,
    ) -> None:
        super().__init__(model, tokenizer, contract, thinks)
        self.sampler = sampler or TorchSampler(model, tokenizer, stop_text(contract), most)

    def write(self, turns: Sequence[Turn], rng: np.random.Generator) -> list[Written]:
        """Each process has its part written; all get all."""
        seeds = rng.integers(2**31, size=len(turns)).tolist()
        prompts = [Prompt(tuple(self.tree(turn).prefix), seed) for turn, seed in zip(turns, seeds, strict=True)]
        sampled = gather_parts(self.sampler.sample(own_part(prompts)), len(prompts))
        return [
            replace(self.read(turn, one.ids, self._tokenizer.decode(one.ids)), log_probabilities=one.log_probabilities)
            for turn, one in zip(turns, sampled, strict=True)
        ]

    def read(self, turn: Turn, ids: Sequence[int], text: str) -> Written:
        offered = {(choice["role"], choice["id"]): choice for choice in turn.choices}
        admissible = [{"role": role, "slot": name} for role, name in offered]
        decision = parse_decision(text, self._contract, admissible)
        if decision["kind"] == "malformed":
            return Written(tuple(ids), None, decision["reason"])
        return Written(tuple(ids), offered[decision["role"], decision["slot"]])

    def token_log_probabilities(self, turns: Sequence[Turn], written: Sequence[Written]) -> list[Tensor]:
        """Of each whole text, token by token, differentiable, on the CPU."""
        passages = [
            Passage(tuple(self.tree(turn).prefix), one.ids, (True,) * len(one.ids))
            for turn, one in zip(turns, written, strict=True)
        ]
        return own_log_probabilities(self.model, passages)


def stop_text(contract: Contract) -> str:
    """What ends a call."""
    return trim(contract["chat"]["callClose"])


def play_written(
    policy: WritingPolicy, episodes: Sequence[Episode], rollouts: int, contract: Contract, rng: np.random.Generator
) -> list[list[Rollout]]:
    groups = [
        [Rollout(number, Run(one.again(rng), contract, rng)) for _ in range(rollouts)]
        for number, one in enumerate(episodes)
    ]
    going = [one for group in groups for one in group]
    while going:
        turns = [rollout.turn() for rollout in going]
        for rollout, turn, written in zip(going, turns, policy.write(turns, rng), strict=True):
            rollout.decisions.append((turn, written))
            if written.choice is None:
                rollout.malformed = written.reason
            else:
                rollout.run.step(written.choice)
        going = [rollout for rollout in going if not rollout.run.done and rollout.malformed is None]
    return groups


def written_backward(
    policy: WritingPolicy, groups: Sequence[Sequence[Rollout]], weights: Sequence[np.ndarray], at_once: int = 8
) -> float:
    """Gradient of -Σ advantage × log π over all turns, divided by their number; returns the loss."""
    samples = [
        (turn, written, float(weight))
        for group, row in zip(groups, weights, strict=True)
        for rollout, weight in zip(group, row, strict=True)
        for turn, written in (rollout.decisions[-1:] if rollout.malformed else rollout.decisions)
        if weight != 0
    ]
    own, loss = own_part(samples), 0.0
    for first in range(0, len(own), at_once):
        piece = own[first : first + at_once]
        turns, texts, advantages = zip(*piece, strict=True)
        rows = policy.token_log_probabilities(turns, texts)
        parts = [
            weight * (_importance(row, text) * row).sum()
            for weight, row, text in zip(advantages, rows, texts, strict=True)
        ]
        total = -sum(parts) / len(samples)
        total.backward()
        loss += total.item()
    return loss


def _importance(row: Tensor, text: Written) -> Tensor:
    """How much likelier each token is here than where it was drawn, up to a bound; one where it was drawn here."""
    if text.log_probabilities is None:
        return torch.ones_like(row)
    return (row.detach() - torch.tensor(text.log_probabilities)).exp().clamp(max=IMPORTANCE_CAP)
