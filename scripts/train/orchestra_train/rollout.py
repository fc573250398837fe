"""One run of a group, and what was decided on its way."""

import copy
from dataclasses import dataclass, field
from typing import Any

from .policy import Turn
from .world.episode import Run


@dataclass(frozen=True)
class Written:
    """A call as a policy wrote it, token by token; without a choice it was malformed, for this reason.

    `log_probabilities` are those of another engine that drew the tokens.
    """

    ids: tuple[int, ...]
    choice: dict[str, Any] | None
    reason: str = ""
    log_probabilities: tuple[float, ...] | None = None


@dataclass
class Rollout:
    """`decisions`: (turn, number of the choice, or what was written). `malformed` ends a run: it scores nothing."""

    group: int
    run: Run
    decisions: list[tuple[Turn, int | Written]] = field(default_factory=list)
    malformed: str | None = None

    def turn(self) -> Turn:
        """Where the run stands now."""
        return Turn(copy.copy(self.run), self.run.choices())
