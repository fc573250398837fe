"""A model that calls functions: its prompt for a task, its way through a run, and how it is shown one."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..contract.load import Contract
from ..contract.render import Segment
from ..model import Decoder
from ..passages import Passage, own_log_probabilities
from ..tokenizer import TextTokenizer
from .checks import Verdict, judge
from .conversation import Spoken, answer_turn, call_turn, opening, read_turn, result_of, results_turn, turn_end
from .environment import Environment
from .model_output import Malformed
from .task_pool import Case, shown_way


@dataclass(frozen=True)
class RunLimits:
    """`most_tokens`: what may be written in a turn."""

    most_turns: int = 12
    most_tokens: int = 160


@dataclass(frozen=True)
class FinishedRun:
    """`tokens_read`: over all turns, each of which reads the whole history again; `called`: names, in order."""

    passage: Passage
    verdict: Verdict
    outcome: float
    malformed: str | None
    answered: bool
    called: tuple[str, ...]
    turns: int
    tokens_read: int
    tokens_written: int


class FunctionPolicy:
    def __init__(self, model: Decoder, tokenizer: TextTokenizer, contract: Contract, limits: RunLimits) -> None:
        self.model = model
        self.limits = limits
        self.contract = contract
        self._tokenizer = tokenizer
        end = tokenizer.encode_segments([{"kind": "markup", "text": turn_end(contract)}])
        if len(end) != 1:
            raise ValueError("the end of a turn is more than one token in this vocabulary")
        [self.end] = end

    def prompt(self, case: Case) -> tuple[int, ...]:
        return tuple(self.tokens(opening(case.domain, case.task, case.functions, self.contract)))

    def tokens(self, segments: Sequence[Segment]) -> list[int]:
        return self._tokenizer.encode_segments(segments)

    def text(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids)

    def demonstration(self, case: Case) -> Passage:
        """A call a turn, and then an answer that tells what had to be told."""
        environment = Environment(case.domain)
        run = TaskRun(self, case)
        for call in shown_way(case.task):
            run.add(self.tokens(call_turn(call, self.contract)), own=True)
            run.add(self.tokens(results_turn([result_of(environment, call)], self.contract)), own=False)
        facts = case.task["evaluation_criteria"]["communicate_info"]
        words = f"It is done: {', '.join(facts)}." if facts else "It is done."
        run.add(self.tokens(answer_turn(words, self.contract)), own=True)
        return run.passage()

    def warm_start_loss(self, passages: Sequence[Passage]) -> Tensor:
        """Cross-entropy a token of what is shown as written."""
        return -torch.cat(own_log_probabilities(self.model, passages)).mean()

    def targets(self, passages: Sequence[Passage]) -> int:
        return sum(sum(passage.own) for passage in passages)


@dataclass
class TaskRun:
    """Mutable on purpose: one walk through a task. A malformed turn ends it; then that turn alone is learnt from."""

    policy: FunctionPolicy
    case: Case
    ids: list[int] = field(default_factory=list)
    own: list[bool] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    turns: int = 0
    tokens_read: int = 0
    tokens_written: int = 0
    malformed: str | None = None
    answered: bool = False
    done: bool = False

    def __post_init__(self) -> None:
        self.prompt = self.policy.prompt(self.case)
        self.environment = Environment(self.case.domain)

    def add(self, ids: Sequence[int], own: bool) -> None:
        self.ids += ids
        self.own += [own] * len(ids)

    def take(self, written: Sequence[int]) -> list[int]:
        """A turn of the policy; what it reads next, nothing where the run is over."""
        self.turns += 1
        self.tokens_read += len(self.prompt) + len(self.ids)
        self.tokens_written += len(written)
        try:
            spoken = self._read(written)
        except Malformed as reason:
            self.malformed, self.done = str(reason), True
            self.own = [False] * len(self.own)
            self.add(written, own=True)
            return []
        self.add(written, own=True)
        if spoken.words:
            self.messages.append(spoken.words)
        results = [result_of(self.environment, call) for call in spoken.calls]
        self.answered = not results
        follows = self.policy.tokens(results_turn(results, self.policy.contract)) if results else []
        self.done = self.answered or self.turns == self.policy.limits.most_turns or not self._has_room(follows)
        if self.done:
            return []
        self.add(follows, own=False)
        return follows

    def _read(self, written: Sequence[int]) -> Spoken:
        if written[-1] != self.policy.end:
            raise Malformed("unfinished turn")
        return read_turn(self.policy.text(written[:-1]), self.policy.contract)

    def _has_room(self, follows: Sequence[int]) -> bool:
        used = len(self.prompt) + len(self.ids) + len(follows) + self.policy.limits.most_tokens
        return used <= self.policy.model.config.context

    def passage(self) -> Passage:
        return Passage(self.prompt, tuple(self.ids), tuple(self.own))

    def finished(self) -> FinishedRun:
        """One that was malformed or did not come to an answer scores nothing."""
        calls, task = self.environment.calls, self.case.task
        verdict = judge(self.case.domain, task, calls, self.messages)
        solved = verdict.reward(task["evaluation_criteria"]["reward_basis"])
        return FinishedRun(
            self.passage(),
            verdict,
            solved if self.answered else 0.0,
            self.malformed,
            self.answered,
            tuple(call["name"] for call in calls),
            self.turns,
            self.tokens_read,
            self.tokens_written,
        )
