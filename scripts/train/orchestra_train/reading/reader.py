"""The model as a reader: grades of tools and of wishes in log-probabilities, prompts as the gateway renders them."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from ..contract.beliefs import card_branch, grade_segments, problem_prefix, wish_branches, wish_prefix
from ..contract.load import Contract
from ..model import Decoder
from ..packing import Tree, tree_states
from ..tokenizer import TextTokenizer
from .rosters import Reading
from .wishes import Wish


class Reader:
    """`half` computes in bfloat16, twice as fast where the processor has it; grades are still told in float32."""

    def __init__(self, model: Decoder, tokenizer: TextTokenizer, contract: Contract, half: bool = False) -> None:
        self.model = model
        self.contract = contract
        self._encode = tokenizer.encode_segments
        self._grade_ids = [self._encode(segments)[0] for segments in grade_segments(contract)]
        self._half = half

    def tree(self, example: Reading | Wish) -> Tree:
        if isinstance(example, Wish):
            return Tree(
                self._encode(wish_prefix(example.text, self.contract)),
                [self._encode(branch) for branch in wish_branches(self.contract)],
            )
        context = self.model.config.context
        prefix = problem_prefix(example.problem, "", example.evidence, context, self.contract)
        branches = [card_branch(tool.quality, tool.privacy, tool.role, self.contract) for tool in example.tools]
        return Tree(self._encode(prefix), [self._encode(branch) for branch in branches])

    def grades(self, trees: Sequence[Tree]) -> list[Tensor]:
        """Log-probabilities [branches, grades] of each tree; a row each, so that attention stays small."""
        with self._precision():
            states = [branches for tree in trees for _, branches in tree_states(self.model, [tree], 1)]
        head = self.model.token_embd.weight if self.model.config.tied else self.model.output.weight
        rows = head[self._grade_ids].float()
        ends = [torch.stack([branch[-1] for branch in branches]).float() for branches in states]
        return [(end @ rows.T).log_softmax(-1) for end in ends]

    def _precision(self) -> AbstractContextManager[None]:
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=self._half)


def halve_frozen(model: Decoder) -> None:
    """What does not learn is kept in bfloat16, so that it need not be cast at every use."""
    for projection in model.projections().values():
        if not projection.weight.requires_grad:
            projection.weight.data = projection.weight.data.bfloat16()
