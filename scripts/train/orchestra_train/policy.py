"""Two kinds of policy behind one interface: log-probabilities of the open choices, as the gateway serves them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from .contract.beliefs import card_branch, grade_segments, problem_prefix, spread_over_levels
from .contract.load import Contract
from .contract.phrase import phrase_preference
from .contract.render import PromptInput, choice_segments, deliver_card, render_prompt, slot_card, thought_segments
from .model import Decoder
from .packing import Tree, branch_log_probabilities, choice_log_probabilities
from .tokenizer import TextTokenizer
from .traced import Number, Traced, slopes
from .world.decide import Beliefs, outlooks, true_beliefs
from .world.episode import Run

# How soft the oracle's choices are as targets, in units of utility.
SOFT_TARGET = 0.25


@dataclass(frozen=True)
class Turn:
    """A run as it stood before a choice, and what was open."""

    run: Run
    choices: list[dict[str, Any]]


class Policy(Protocol):
    model: Decoder

    def log_probabilities(self, turns: Sequence[Turn]) -> list[Tensor]:
        """One [choices] a turn, differentiable."""

    def warm_start_loss(self, turns: Sequence[Turn]) -> Tensor:
        """Distance from what the world knows, a mean over `targets`; a scalar."""

    def targets(self, turns: Sequence[Turn]) -> int:
        """What the mean of `warm_start_loss` is taken over: parts of a batch weigh by it."""


class BeliefsPolicy:
    """`beliefs-1`: the model grades each card, the expected-utility search chooses."""

    def __init__(self, model: Decoder, tokenizer: TextTokenizer, contract: Contract) -> None:
        self.model = model
        self._tokenizer = tokenizer
        self._contract = contract
        grades = [tokenizer.encode_segments(segments) for segments in grade_segments(contract)]
        if any(len(ids) != 1 for ids in grades):
            raise ValueError("a grade is more than one token in this vocabulary")
        self._grade_ids = [ids[0] for ids in grades]

    def grades(self, turns: Sequence[Turn]) -> list[Tensor]:
        """Log-probabilities of the grades, [slots, grades] a turn; equal prompts are computed once."""
        trees = [self.tree(turn.run) for turn in turns]
        keys = [repr(tree) for tree in trees]
        distinct = dict(zip(keys, trees, strict=True))
        found = branch_log_probabilities(self.model, list(distinct.values()), self._grade_ids)
        by_key = dict(zip(distinct, found, strict=True))
        return [by_key[key] for key in keys]

    def tree(self, run: Run) -> Tree:
        context = self.model.config.context
        prefix = problem_prefix(run.episode.problem, "", run.evidence, context, self._contract)
        branches = [card_branch(slot.quality, slot.role, self._contract, slot.measured) for slot in run.episode.slots]
        encode = self._tokenizer.encode_segments
        return Tree(encode(prefix), [encode(branch) for branch in branches])

    def log_probabilities(self, turns: Sequence[Turn]) -> list[Tensor]:
        found = []
        for turn, grades in zip(turns, self.grades(turns), strict=True):
            utilities = self._utilities(turn, self._means(turn.run, grades))
            found.append((utilities / self._contract["temperature"]).log_softmax(-1))
        return found

    def _means(self, run: Run, grades: Tensor) -> Tensor:
        """What the grades stand for on average: an answerer's chance, a helper's gain. [slots, grades] -> [slots]"""
        contract = self._contract
        stops = [contract["chances" if slot.role == "answer" else "gains"] for slot in run.episode.slots]
        return (grades.exp().double() * torch.tensor(stops, dtype=torch.float64)).sum(-1)

    def _utilities(self, turn: Turn, means: Tensor) -> Tensor:
        """Of the choices, with the search's gradient by the means of the slots. [slots] -> [choices]"""
        if not means.requires_grad:
            return torch.tensor([float(one) for one in self._search(turn, means.tolist())], dtype=torch.float64)
        given = [Traced(mean) for mean in means.tolist()]
        found = self._search(turn, given)
        values = torch.tensor([float(one) for one in found], dtype=torch.float64)
        by_means = torch.tensor([slopes(one, given) for one in found], dtype=torch.float64)
        return values + by_means @ (means - means.detach())

    def _search(self, turn: Turn, means: Sequence[Number]) -> list[Number]:
        contract, slots = self._contract, turn.run.episode.slots
        answers = [slot.role == "answer" for slot in slots]
        each = list(zip(means, answers, strict=True))
        chances = [spread_over_levels(mean, contract["levels"]) if answer else () for mean, answer in each]
        gains = [1.0 if answer else mean for mean, answer in each]
        return [one.utility for one in outlooks(turn.run, turn.choices, Beliefs(chances, gains), contract)]

    def warm_start_loss(self, turns: Sequence[Turn]) -> Tensor:
        """Cross-entropy to grades whose mean is the true chance (or gain) of each slot."""
        losses = []
        for turn, grades in zip(turns, self.grades(turns), strict=True):
            truth = true_beliefs(turn.run)
            targets = [
                _between(sum(chances) / len(chances), self._contract["chances"])
                if slot.role == "answer"
                else _between(gain, self._contract["gains"])
                for slot, chances, gain in zip(turn.run.episode.slots, truth.chances, truth.gains, strict=True)
            ]
            losses.append(-(torch.tensor(targets) * grades).sum(-1))
        return torch.cat(losses).mean()

    def targets(self, turns: Sequence[Turn]) -> int:
        return sum(len(turn.run.episode.slots) for turn in turns)


class SlotsPolicy:
    """`slots-1` and `slots-2`: the whole roster in the prompt, each call scored by the masked product."""

    def __init__(self, model: Decoder, tokenizer: TextTokenizer, contract: Contract, thinks: bool = False) -> None:
        self.model = model
        self._tokenizer = tokenizer
        self._contract = contract
        self._thinks = thinks

    def tree(self, turn: Turn) -> Tree:
        run, contract = turn.run, self._contract
        cards = [{"role": choice["role"], "card": self._card(run, choice)} for choice in turn.choices]
        wish = phrase_preference(run.episode.weights, run.episode.instruction, contract)
        prompt = PromptInput(run.episode.problem, "", run.evidence, cards, wish, self.model.config.context)
        # The engine closes the thought of a policy that does not think.
        segments = [*render_prompt(prompt, contract), *([] if self._thinks else thought_segments(contract))]
        calls = [choice_segments(choice["role"], choice["id"], contract) for choice in turn.choices]
        encode = self._tokenizer.encode_segments
        return Tree(encode(segments), [encode(call) for call in calls])

    def _card(self, run: Run, choice: dict[str, Any]) -> dict[str, str]:
        if choice["delivers"]:
            return deliver_card(choice["delivers"], self._contract)
        slot = run.episode.slots[run.slot_number(choice)]
        # The world knows what a call costs; shown as a price a million tokens at a thousand tokens a call.
        nano = round(slot.cost_usd * 1e3 * 100) * 10**7
        rates = {"input": nano, "output": nano}
        shown = {"quality": slot.quality, "rates": rates, "latencyMs": slot.latency_ms, "privacy": slot.privacy}
        return slot_card({"id": slot.id, **shown}, self._contract)

    def log_probabilities(self, turns: Sequence[Turn]) -> list[Tensor]:
        return choice_log_probabilities(self.model, [self.tree(turn) for turn in turns])

    def warm_start_loss(self, turns: Sequence[Turn]) -> Tensor:
        """Cross-entropy to a softened oracle, so that several good ways are learnt."""
        losses = []
        for turn, scores in zip(turns, self.log_probabilities(turns), strict=True):
            utilities = outlooks(turn.run, turn.choices, true_beliefs(turn.run), self._contract)
            truth = torch.tensor([float(one.utility) for one in utilities])
            losses.append(-((truth / SOFT_TARGET).softmax(-1) * scores).nan_to_num(0.0).sum())
        return torch.stack(losses).mean()

    def targets(self, turns: Sequence[Turn]) -> int:
        return len(turns)


def _between(value: float, stops: list[float]) -> list[float]:
    """Weights on the two neighbouring stops, so that their mean is the value."""
    value = min(max(value, stops[0]), stops[-1])
    above = next(index for index, stop in enumerate(stops) if value <= stop)
    weights = [0.0] * len(stops)
    share = 1.0 if above == 0 else (value - stops[above - 1]) / (stops[above] - stops[above - 1])
    weights[above] = share
    if above > 0:
        weights[above - 1] = 1 - share
    return weights
