"""What the reader should know on the way: which statement is meant, and what it says. For training alone.

The answer at a card's end tells a small model too little about how to get there. So the middle layers are asked too:
behind MATCHED, does this name fit this problem, which grade does this statement give, does the evidence settle the
problem, and what does this wish care for; behind READ, does this statement count here. The probes that ask are thrown
away after training; prompts and serving know nothing of them.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..contract.phrase import AXES
from .cards import OVERALL, Card
from .rosters import Reading, as_grades, value_range
from .subjects import SUBJECTS

# Shares of the layers.
MATCHED, READ = 0.5, 0.7
# How a statement bears on a problem: not at all, on everything, on its group, on its very subject.
BEARINGS = 4
GRADES = 5
_ENTRY = re.compile(r"(?<=[:;] )([^:;%]+) (\d+)%[;.]")


@dataclass(frozen=True)
class StatementHint:
    """Code points into a card's text: where the statement and each of its names end, and whether each is meant."""

    end: int
    name_ends: tuple[tuple[int, bool], ...]
    bearing: int
    chance: float | None


def hints_of(card: Card, subject: str) -> list[StatementHint]:
    found = []
    for start, text, statement in card.spans():
        ends = []
        for about, name in zip(statement.about, statement.names, strict=False):
            place = text.lower().find(name.lower())
            if place >= 0:
                ends.append((start + place + len(name), about in (subject, SUBJECTS[subject].group)))
        bearing = bearing_of(statement.about, subject)
        found.append(StatementHint(start + len(text), tuple(ends), bearing, statement.chance))
    return found


def bearing_of(about: tuple[str, ...], subject: str) -> int:
    order = (OVERALL, SUBJECTS[subject].group, subject)
    return max((place + 1 for place, one in enumerate(order) if one in about), default=0)


class Probes(nn.Module):
    def __init__(self, width: int, layers: int, rank: int = 64) -> None:
        super().__init__()
        self.matched, self.read = round(MATCHED * layers), round(READ * layers)
        self.problem = nn.Linear(width, rank, bias=False)
        self.name = nn.Linear(width, rank, bias=False)
        self.offset = nn.Parameter(torch.tensor(-2.0))
        self.bearing = nn.Linear(width, BEARINGS)
        self.grade = nn.Linear(width, GRADES)
        self.settle = nn.Linear(width, 2)
        self.wish = nn.Linear(width, len(AXES) * GRADES)

    def begin_silent(self) -> None:
        """Beside a reader that was trained without them: they learn from it before they teach it anything."""
        for asked in (self.name, self.bearing, self.grade, self.settle, self.wish):
            nn.init.zeros_(asked.weight)

    def take_over(self, saved: dict[str, Tensor], of: Path) -> None:
        """@raises SystemExit where other questions were asked than now."""
        try:
            self.load_state_dict(saved)
        except RuntimeError:
            raise SystemExit(f"{of} was trained with other hints than this trainer asks: begin anew") from None

    def matches(self, problems: Tensor, names: Tensor) -> Tensor:
        """[P, width], [N, width] -> log-odds [P, N]"""
        return self.problem(_normed(problems)) @ self.name(_normed(names)).T + self.offset

    def grades(self, ends: Tensor) -> Tensor:
        """Of statements, behind MATCHED: [S, width] -> log-odds [S, 5]"""
        return self.grade(_normed(ends))

    def settled(self, ends: Tensor) -> Tensor:
        """Where evidence ends, behind MATCHED: [E, width] -> log-odds of documents that answer, of a result [E, 2]"""
        return self.settle(_normed(ends))

    def wishes(self, ends: Tensor) -> Tensor:
        """Where wishes end, behind MATCHED: [W, width] -> log-odds of grades [W, axes, 5]"""
        return self.wish(_normed(ends)).view(-1, len(AXES), GRADES)

    def bearings(self, ends: Tensor) -> Tensor:
        """Of statements, behind READ: [S, width] -> log-odds [S, 4]"""
        return self.bearing(_normed(ends))


def _normed(x: Tensor) -> Tensor:
    return F.rms_norm(x.float(), x.shape[-1:])


def statement_targets(hints: list[StatementHint]) -> tuple[Tensor, Tensor, Tensor]:
    """Bearings [S], grade weights [S, 5], and which statements have a grade [S]."""
    stops = value_range("answer")
    grades = [as_grades(0.5 if hint.chance is None else hint.chance, stops) for hint in hints]
    return (
        torch.tensor([hint.bearing for hint in hints]),
        torch.tensor(np.array(grades)).float(),
        torch.tensor([hint.chance is not None for hint in hints]),
    )


def hints_by_tool(reading: Reading) -> list[list[StatementHint]]:
    if reading.recorded:
        return [figures_of(tool.quality, reading.subject) for tool in reading.tools]
    return [hints_of(tool.card, reading.subject) if tool.card else [] for tool in reading.tools]


def figures_of(text: str, domain: str) -> list[StatementHint]:
    """The entries of a recorded card of figures, `law 62%`, as statements; of cards in words nothing is known."""
    found = []
    for entry in _ENTRY.finditer(text):
        meant = entry[1] == domain
        bearing = BEARINGS - 1 if meant else 0
        found.append(StatementHint(entry.end(), ((entry.end(1), meant),), bearing, int(entry[2]) / 100))
    return found
