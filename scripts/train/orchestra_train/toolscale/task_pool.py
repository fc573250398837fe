"""Tasks to train on and tasks that training never sees, each with the tools that are shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..world.episode import AXES, PROFILES
from .dataset import load_domains, load_tasks
from .environment import Call, Domain
from .experts import Expert, fresh_experts

# Of the tasks of each domain every fifth is kept from training; a task and its harder form count as one.
UNSEEN_EVERY = 5

# Tools run where the task is, so nobody has a wish about privacy.
WISHES = ("balanced", "quality", "cost", "latency")


def profile(name: str) -> dict[str, float]:
    return dict(zip(AXES, PROFILES[name], strict=True))


@dataclass(frozen=True)
class Case:
    """A task at hand. `functions`: the domain's tools that are shown; all of them work. `weights`: of the four axes."""

    domain: Domain
    task: Mapping[str, Any]
    functions: tuple[Mapping[str, Any], ...]
    experts: tuple[Expert, ...] = ()
    weights: Mapping[str, float] = field(default_factory=lambda: profile("balanced"))


@dataclass(frozen=True)
class TaskPool:
    """`most_tools`: how many are shown at most, those that are needed among random others; all where it is None.

    With `experts` each task comes with some of its own, and with somebody's wish about money and time.
    """

    domains: Mapping[str, Domain]
    tasks: Sequence[Mapping[str, Any]]
    most_tools: int | None = None
    experts: bool = False

    def draw(self, rng: np.random.Generator) -> Case:
        return self.case(self.tasks[rng.integers(len(self.tasks))], rng)

    def cases(self) -> list[Case]:
        """Each task once, with the same tools whenever it is asked."""
        return [self.case(task, np.random.default_rng([*str(task["id"]).encode()])) for task in self.tasks]

    def case(self, task: Mapping[str, Any], rng: np.random.Generator) -> Case:
        domain = self.domains[task["domain"]]
        needed = {call["name"] for call in shown_way(task)}
        others = [tool["name"] for tool in domain.tools if tool["name"] not in needed]
        room = len(others) if self.most_tools is None else max(0, self.most_tools - len(needed))
        shown = needed | {others[at] for at in rng.permutation(len(others))[:room]}
        functions = [one for one in domain.functions() if one["function"]["name"] in shown]
        if not self.experts:
            return Case(domain, task, tuple(functions))
        wish = WISHES[rng.integers(len(WISHES))]
        return Case(domain, task, tuple(functions), fresh_experts(rng), profile(wish))


def shown_way(task: Mapping[str, Any]) -> list[Call]:
    """Calls that do a task: with the looks that it takes, where the task tells them, else the golden ones."""
    return list(task.get("demonstration") or task["evaluation_criteria"]["actions"])


def open_pools(
    folder: Path, most_tools: int | None = None, names: Sequence[str] = (), experts: bool = False
) -> tuple[TaskPool, TaskPool]:
    """What may be trained on, and what is kept from it; of the named domains, or of all."""
    domains, by_domain = load_domains(folder), {}
    for task in load_tasks(folder).values():
        if not names or task["domain"] in names:
            by_domain.setdefault(task["domain"], []).append(task)
    seen, unseen = [], []
    for tasks in by_domain.values():
        numbers: dict[Any, int] = {}
        for task in tasks:
            number = numbers.setdefault(task.get("intent", task["id"]), len(numbers) + 1)
            (seen if number % UNSEEN_EVERY else unseen).append(task)
    return TaskPool(domains, seen, most_tools, experts), TaskPool(domains, unseen, most_tools, experts)
