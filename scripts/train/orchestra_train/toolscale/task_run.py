"""One run at a task: what the policy writes is read and done, by the tools or by an expert, until it ends."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..passages import Passage
from .checks import Verdict, judge
from .conversation import Spoken, answer_turn, call_turn, expert_turn, read_turn, result_of, results_turn
from .environment import Call, Environment
from .experts import CALL_EXPERT, expert_usd, handing_over
from .function_policy import FunctionPolicy
from .model_output import Malformed
from .task_pool import Case, shown_way

GIVING_UP = Spoken((), "I could not do it.")
# How often a shown way hands a step over: what a policy never saw it would never try.
HANDED_OVER = 0.3


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
    experts_called: int
    experts_usd: float
    experts_s: float


@dataclass
class TaskRun:
    """Mutable on purpose: one walk through a task. A malformed turn ends it; then that turn alone is learnt from."""

    policy: FunctionPolicy
    case: Case
    rng: np.random.Generator
    ids: list[int] = field(default_factory=list)
    own: list[bool] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    turns: int = 0
    tokens_read: int = 0
    tokens_written: int = 0
    experts_called: int = 0
    experts_usd: float = 0.0
    experts_s: float = 0.0
    malformed: str | None = None
    answered: bool = False
    done: bool = False

    def __post_init__(self) -> None:
        self.prompt = self.policy.prompt(self.case)
        self.environment = Environment(self.case.domain)
        if not self._has_room([]):
            raise ValueError(f"the prompt of task {self.case.task['id']} fills the context; show fewer tools")

    def take(self, written: Sequence[int]) -> list[int]:
        """A turn of the policy; what it reads next, nothing where the run is over."""
        self.turns += 1
        self.tokens_read += self._length()
        self.tokens_written += len(written)
        try:
            spoken = self._read(written)
        except Malformed as reason:
            self.malformed, self.done = str(reason), True
            self.own = [False] * len(self.own)
            self._add(written, own=True)
            return []
        self._add(written, own=True)
        self._say(spoken.words)
        follows = self._hand_over(spoken.calls[0]) if self._calls_expert(spoken) else self._do(spoken.calls)
        self.done = self.answered or self.turns == self.policy.limits.most_turns or not self._has_room(follows)
        if self.done:
            return []
        self._add(follows, own=False)
        return follows

    def _read(self, written: Sequence[int]) -> Spoken:
        if written[-1] != self.policy.end:
            raise Malformed("unfinished turn")
        spoken = read_turn(self.policy.text(written[:-1]), self.policy.contract)
        if self._calls_expert(spoken) and len(spoken.calls) > 1:
            raise Malformed("an expert takes a step alone")
        return spoken

    def _calls_expert(self, spoken: Spoken) -> bool:
        return bool(self.case.experts) and any(call["name"] == CALL_EXPERT for call in spoken.calls)

    def _say(self, words: str) -> None:
        if words:
            self.messages.append(words)

    def _do(self, calls: Sequence[Call]) -> list[int]:
        """The tokens of what came back; where nothing was called the run came to an answer."""
        self.answered = not calls
        results = [result_of(self.environment, call) for call in calls]
        return self.policy.tokens(results_turn(results, self.policy.contract)) if results else []

    def _hand_over(self, call: Call) -> list[int]:
        """The expert's turn stands in the history behind the policy's, and is done like one."""
        expert = next((one for one in self.case.experts if call == handing_over(one)), None)
        if expert is None:
            return self.policy.tokens(results_turn([{"error": "there is no such expert"}], self.policy.contract))
        right = self.rng.random() < expert.chance
        step = right_step(self.case, self.environment) if right else GIVING_UP
        turn = self.policy.tokens(expert_turn(step, self.policy.contract))
        self.experts_called += 1
        self.experts_usd += expert_usd(expert, self._length() + len(turn))
        self.experts_s += expert.latency_ms / 1000
        self._say(step.words)
        return [*turn, *self._do(step.calls)]

    def _add(self, ids: Sequence[int], own: bool) -> None:
        self.ids += ids
        self.own += [own] * len(ids)

    def _length(self) -> int:
        return len(self.prompt) + len(self.ids)

    def _has_room(self, follows: Sequence[int]) -> bool:
        return self._length() + len(follows) + self.policy.limits.most_tokens <= self.policy.model.config.context

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
            self.experts_called,
            self.experts_usd,
            self.experts_s,
        )


def right_step(case: Case, environment: Environment) -> Spoken:
    """The first call of a way that works which was not made yet; after the last an answer with what must be told."""
    made = list(environment.calls)
    for call in shown_way(case.task):
        if call not in made:
            return Spoken((call,), "")
        made.remove(call)
    facts = case.task["evaluation_criteria"]["communicate_info"]
    return Spoken((), f"It is done: {', '.join(facts)}." if facts else "It is done.")


def demonstration(policy: FunctionPolicy, case: Case, rng: np.random.Generator) -> Passage:
    """A right step a turn; some are handed over to experts, who do not fail here."""
    sure = replace(case, experts=tuple(replace(expert, chance=1.0) for expert in case.experts))
    run = TaskRun(policy, sure, rng)
    while not run.done:
        step = right_step(sure, run.environment)
        if sure.experts and rng.random() < HANDED_OVER:
            step = Spoken((handing_over(sure.experts[rng.integers(len(sure.experts))]),), "")
        turn = call_turn(step.calls[0], policy.contract) if step.calls else answer_turn(step.words, policy.contract)
        run.take(policy.tokens(turn))
    return run.passage()
