"""A model that calls functions: its prompt for a task, its limits, and what it is shown in a warm start."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..contract.load import Contract
from ..contract.phrase import phrase_preference
from ..contract.render import Segment
from ..model import Decoder
from ..passages import Passage, own_log_probabilities
from ..tokenizer import TextTokenizer
from .conversation import opening, turn_end
from .experts import expert_function
from .task_pool import Case


@dataclass(frozen=True)
class RunLimits:
    """`most_tokens`: what may be written in a turn."""

    most_turns: int = 12
    most_tokens: int = 160


class FunctionPolicy:
    def __init__(self, model: Decoder, tokenizer: TextTokenizer, contract: Contract, limits: RunLimits) -> None:
        self.model = model
        self.limits = limits
        self.contract = contract
        self._tokenizer = tokenizer
        end = self.tokens([{"kind": "markup", "text": turn_end(contract)}])
        if len(end) != 1:
            raise ValueError("the end of a turn is more than one token in this vocabulary")
        [self.end] = end

    def prompt(self, case: Case) -> tuple[int, ...]:
        experts = [expert_function(case.experts, self.contract)] if case.experts else []
        wish = phrase_preference(dict(case.weights), "", self.contract)
        return tuple(self.tokens(opening(case.domain, case.task, [*case.functions, *experts], self.contract, wish)))

    def tokens(self, segments: Sequence[Segment]) -> list[int]:
        return self._tokenizer.encode_segments(segments)

    def text(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids)

    def warm_start_loss(self, passages: Sequence[Passage]) -> Tensor:
        """Cross-entropy a token of what is shown as written."""
        return -torch.cat(own_log_probabilities(self.model, passages)).mean()

    def targets(self, passages: Sequence[Passage]) -> int:
        return sum(sum(passage.own) for passage in passages)
