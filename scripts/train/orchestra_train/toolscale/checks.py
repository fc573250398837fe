"""Is a task done? Three checks and three filters (ToolOrchestra, section 3.3 and appendix)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .environment import Call, Domain, Environment, replay
from .operations import plain_numbers

Task = Mapping[str, Any]
Solver = Callable[[Domain, Task], tuple[Sequence[Call], Sequence[str]]]


@dataclass(frozen=True)
class Verdict:
    """`execution`: the state after the calls is that after the golden ones; `process`: all that had to be told was
    told; `completeness`: every golden call was made."""

    execution: bool
    process: bool
    completeness: bool

    def reward(self, basis: Sequence[str]) -> float:
        return float(all(getattr(self, part) for part in basis))


def judge(domain: Domain, task: Task, calls: Sequence[Call], messages: Sequence[str]) -> Verdict:
    """`messages`: what the agent said to the user."""
    criteria = task["evaluation_criteria"]
    golden = criteria["actions"]
    told = _plain("\n".join(messages))
    made = [plain_numbers(dict(call)) for call in calls]
    return Verdict(
        execution=replay(domain, calls).hash() == replay(domain, golden).hash(),
        process=all(_plain(fact) in told for fact in criteria["communicate_info"]),
        completeness=all(plain_numbers(_call_of(action)) in made for action in golden),
    )


def score(domain: Domain, task: Task, calls: Sequence[Call], messages: Sequence[str]) -> float:
    """1 when all parts of the task's `reward_basis` hold, else 0."""
    return judge(domain, task, calls, messages).reward(task["evaluation_criteria"]["reward_basis"])


def golden_error(domain: Domain, task: Task) -> bool:
    """First filter: a golden call fails, or there is none."""
    actions = task["evaluation_criteria"]["actions"]
    return not actions or replay(domain, actions).errors > 0


def idle_solves(domain: Domain, task: Task) -> bool:
    """Third filter: doing and saying nothing is already enough."""
    return score(domain, task, [], []) > 0


def solved_within(domain: Domain, task: Task, solver: Solver, attempts: int = 8) -> bool:
    """Second filter: some attempt of a capable model does it."""
    return any(score(domain, task, *solver(domain, task)) > 0 for _ in range(attempts))


def golden_solver(domain: Domain, task: Task) -> tuple[Sequence[Call], Sequence[str]]:
    criteria = task["evaluation_criteria"]
    return [_call_of(action) for action in criteria["actions"]], criteria["communicate_info"]


def results_of(domain: Domain, calls: Sequence[Call]) -> list[Any]:
    """What each call returns, one after the other. @raises ToolError"""
    environment = Environment(domain)
    return [environment.call(call["name"], call["arguments"]) for call in calls]


def _call_of(action: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": action["name"], "arguments": dict(action["arguments"])}


def _plain(text: str) -> str:
    return text.lower().replace(",", "")
