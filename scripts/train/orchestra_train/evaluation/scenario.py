"""Tasks, slots and what each slot would answer: what the gateway is driven with, whatever it comes from."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

PRIVACY_CLASSES = ("any", "no_training", "zdr", "self_hosted", "local")


@dataclass(frozen=True)
class Reply:
    """What an expert says, what it is charged for, and whether it is right."""

    text: str
    right: bool
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Slot:
    """A slot as the configuration names it; prices in USD per million tokens or per call."""

    id: str
    quality: str
    price: dict[str, float]
    latency_ms: int
    privacy: str = "any"
    skills: dict[str, float] = field(default_factory=dict)
    output_tokens: int = 400
    role: str = "answer"


@dataclass(frozen=True)
class Task:
    """`slots` are the roster of this task; `limits` are hard ones in the words of the API.

    A call of a slot in `down` fails. `found` says by role what a helper brings, as experts get to read it.
    """

    problem: str
    slots: tuple[str, ...]
    weights: dict[str, float]
    instruction: str = ""
    limits: dict[str, Any] = field(default_factory=dict)
    down: frozenset[str] = frozenset()
    found: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """No two tasks with a slot in common have equal problems: so an expert knows what it is asked.

    `reply` is given the task, the slot, and the roles of helpers whose findings the slot could read.
    """

    name: str
    slots: dict[str, Slot]
    tasks: Sequence[Task]
    reply: Callable[[int, str, Collection[str]], Reply]

    def cost_usd(self, task: int, slot: str) -> float:
        """Of one call, as the gateway charges it."""
        price, reply = self.slots[slot].price, self.reply(task, slot, ())
        tokens = price.get("input", 0) * reply.prompt_tokens + price.get("output", 0) * reply.output_tokens
        return tokens / 1e6 + price.get("per_call", 0)

    def admissible(self, task: int) -> list[str]:
        """Slots of the task that its limits leave, each by itself."""
        limits = self.tasks[task].limits
        least = PRIVACY_CLASSES.index(limits.get("privacy", "any"))
        most = limits.get("max_cost_usd", float("inf"))
        private = [one for one in self.tasks[task].slots if PRIVACY_CLASSES.index(self.slots[one].privacy) >= least]
        return [one for one in private if self.cost_usd(task, one) <= most]

    def answering(self, task: int) -> list[str]:
        """Slots that can answer the task: admissible and not down."""
        return [
            one
            for one in self.admissible(task)
            if self.slots[one].role == "answer" and one not in self.tasks[task].down
        ]
