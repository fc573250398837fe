"""A policy that writes its calls freely, as an 8B with thoughts does, instead of choosing among scored ones.

What it writes may be no call at all. Such a run ends there with outcome 0 and stays in its group, where the released
code of ToolOrchestra takes it out of the batch; its advantage falls on the malformed turn alone. No key-value cache:
for models of tests; a large one needs an engine for its rollouts.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .contract.cut import trim
from .contract.load import Contract
from .contract.parse import parse_decision
from .model import Decoder
from .packing import Tree, tree_states
from .policy import SlotsPolicy, Turn
from .processes import own_part
from .rollout import Rollout, Written
from .tokenizer import TextTokenizer
from .world.episode import Episode, Run

MOST_TOKENS = 64


class WritingPolicy(SlotsPolicy):
    """`slots-1` and `slots-2` over the whole vocabulary. Log-probabilities are those of ordinary tokens."""

    def __init__(self, model: Decoder, tokenizer: TextTokenizer, contract: Contract, most: int = MOST_TOKENS) -> None:
        super().__init__(model, tokenizer, contract)
        self._most = most

    @torch.no_grad()
    def write(self, turns: Sequence[Turn], rng: np.random.Generator) -> list[Written]:
        """Sampled at temperature 1 without cuts, so that the distribution is the one that is trained."""
        return [self._write(turn, rng) for turn in turns]

    def _write(self, turn: Turn, rng: np.random.Generator) -> Written:
        prefix = self.tree(turn).prefix
        close = trim(self._contract["chat"]["callClose"])
        ids: list[int] = []
        text = ""
        while len(ids) < self._most and close not in text:
            states = self.model(torch.tensor([[*prefix, *ids]], device=self.model.device))[0, -1]
            chances = self.model.logits(states).double().softmax(-1).cpu().numpy()
            ids.append(int(rng.choice(len(chances), p=chances / chances.sum())))
            text = self._tokenizer.decode(ids)
        return self.read(turn, ids, text)

    def read(self, turn: Turn, ids: Sequence[int], text: str) -> Written:
        offered = {(choice["role"], choice["id"]): choice for choice in turn.choices}
        admissible = [{"role": role, "slot": name} for role, name in offered]
        decision = parse_decision(text, self._contract, admissible)
        if decision["kind"] == "malformed":
            return Written(tuple(ids), None, decision["reason"])
        return Written(tuple(ids), offered[decision["role"], decision["slot"]])

    def written_log_probabilities(self, turns: Sequence[Turn], written: Sequence[Written]) -> list[Tensor]:
        """Of each whole text, differentiable; a scalar a turn, on the CPU."""
        trees = [Tree(self.tree(turn).prefix, [list(one.ids)]) for turn, one in zip(turns, written, strict=True)]
        found = []
        for (end, [branch]), one in zip(tree_states(self.model, trees, 2048), written, strict=True):
            scores = self.model.logits(torch.cat([end[None], branch[:-1]])).log_softmax(-1)
            ids = torch.tensor(one.ids, device=scores.device)
            found.append(scores.gather(1, ids[:, None]).sum().cpu())
        return found


def play_written(
    policy: WritingPolicy, episodes: Sequence[Episode], rollouts: int, contract: Contract, rng: np.random.Generator
) -> list[list[Rollout]]:
    groups = [
        [Rollout(number, Run(one.again(rng), contract, rng)) for _ in range(rollouts)]
        for number, one in enumerate(episodes)
    ]
    for rollout in (one for group in groups for one in group):
        while not rollout.run.done and rollout.malformed is None:
            turn = rollout.turn()
            [written] = policy.write([turn], rng)
            rollout.decisions.append((turn, written))
            if written.choice is None:
                rollout.malformed = written.reason
            else:
                rollout.run.step(written.choice)
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
        rows = policy.written_log_probabilities(turns, texts)
        total = -sum(weight * row for weight, row in zip(advantages, rows, strict=True)) / len(samples)
        total.backward()
        loss += total.item()
    return loss
