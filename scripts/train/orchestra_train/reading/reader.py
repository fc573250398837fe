"""The model as a reader: grades of tools and of wishes in log-probabilities, prompts as the gateway renders them."""

from bisect import bisect_left
from collections.abc import Sequence

from torch import Tensor

from ..contract.beliefs import card_branch, grade_segments, problem_prefix, wish_branches, wish_prefix
from ..contract.load import Contract
from ..model import Decoder
from ..packing import Tree, branch_log_probabilities
from ..tokenizer import TextTokenizer
from .rosters import Reading
from .wishes import Wish


class Reader:
    def __init__(self, model: Decoder, tokenizer: TextTokenizer, contract: Contract) -> None:
        self.model = model
        self.contract = contract
        self.encode = tokenizer.encode_segments
        self._ends = tokenizer.ends
        self.grade_ids = [self.encode(segments)[0] for segments in grade_segments(contract)]

    def tree(self, example: Reading | Wish) -> Tree:
        if isinstance(example, Wish):
            return Tree(
                self.encode(wish_prefix(example.text, self.contract)),
                [self.encode(branch) for branch in wish_branches(self.contract)],
            )
        context = self.model.config.context
        prefix = problem_prefix(example.problem, "", example.evidence, context, self.contract)
        branches = [card_branch(tool.quality, tool.role, self.contract) for tool in example.tools]
        return Tree(self.encode(prefix), [self.encode(branch) for branch in branches])

    def grades(self, trees: Sequence[Tree]) -> list[Tensor]:
        """Log-probabilities [branches, grades] of each tree; a row each, so that attention stays small."""
        return branch_log_probabilities(self.model, trees, self.grade_ids, most_tokens=1)

    def grades_at(self, ends: Tensor) -> Tensor:
        """[branches, width] -> log-probabilities [branches, grades], on the CPU"""
        return self.model.logits(ends, self.grade_ids).log_softmax(-1).cpu()

    def place(self, branch: Sequence[dict[str, str]], part: str, end: int) -> int:
        """The token that holds the last of `part`'s first `end` code points, in a branch's first text."""
        text = branch[0]["text"]
        return bisect_left(self._ends(text), text.index(part) + end)


def halve_frozen(model: Decoder) -> None:
    """What does not learn is kept in bfloat16, so that it need not be cast at every use."""
    for projection in model.projections().values():
        if not projection.weight.requires_grad:
            projection.weight.data = projection.weight.data.bfloat16()
