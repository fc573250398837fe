"""One example's answers and hints in a single pass, with what the probes make of its middle layers."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..contract.beliefs import card_branch, problem_prefix
from ..contract.cut import keep_tail, prompt_budgets, well_formed
from ..packing import Row, batch_inputs
from .hints import Probes, StatementHint, hints_by_tool, statement_targets
from .reader import Reader
from .rosters import Reading
from .wishes import Wish


@dataclass(frozen=True)
class Midway:
    """`grades`: log-probabilities [tools, 5]; `figures`: shares of the hints that were told right."""

    tokens: int
    grades: Tensor
    hint_loss: Tensor
    figures: dict[str, float]


@dataclass(frozen=True)
class HintPlaces:
    """Tokens of a tree: where the problem ends, the names, and the statements with what is known of them."""

    problem_end: int
    names: list[int]
    meant: list[float]
    statements: list[int]
    hints: list[StatementHint]


def hint_places(reader: Reader, reading: Reading, paths: Sequence[Sequence[int]]) -> HintPlaces:
    """`paths`: of each branch the places of its tokens."""
    places = HintPlaces(_problem_end(reader, reading), [], [], [], [])
    for tool, path, hints in zip(reading.tools, paths, hints_by_tool(reading), strict=True):
        branch = card_branch(tool.quality, tool.role, reader.contract)
        for hint in hints:
            places.hints.append(hint)
            places.statements.append(path[reader.place(branch, tool.quality, hint.end)])
            for end, fits in hint.name_ends:
                places.names.append(path[reader.place(branch, tool.quality, end)])
                places.meant.append(float(fits))
    return places


def read_midway(reader: Reader, probes: Probes, reading: Reading) -> Midway:
    row = Row()
    added = row.add(reader.tree(reading))
    inputs = batch_inputs([row], reader.model.device)
    states, seen = reader.model.midway(*inputs, {probes.matched, probes.read})
    matched, read = (seen[layer][0].cpu() for layer in (probes.matched, probes.read))
    grades = reader.grades_at(states[0, [path[-1] for path in added.branches]])
    places = hint_places(reader, reading, added.branches)
    told = []
    if places.names:
        told.append(_name_loss(probes, matched, places))
    if reading.settled is not None:
        told.append(_settled_loss(probes, matched[added.prefix_end], reading.settled))
    if places.statements:
        told.append(_statement_loss(probes, matched[places.statements], read[places.statements], places.hints))
    loss = sum((loss for loss, _ in told), torch.zeros(()))
    return Midway(len(row), grades, loss, {name: value for _, figures in told for name, value in figures.items()})


@dataclass(frozen=True)
class WishesMidway:
    """`grades`: log-probabilities [wishes, axes, 5]; the loss and the right share of what the probes make of them."""

    grades: Tensor
    hint_loss: Tensor
    right: float


def read_wishes(reader: Reader, probes: Probes, wishes: Sequence[Wish]) -> WishesMidway:
    """All in one row: they begin alike."""
    row = Row()
    added = [row.add(reader.tree(wish)) for wish in wishes]
    states, seen = reader.model.midway(*batch_inputs([row], reader.model.device), {probes.matched})
    grades = reader.grades_at(states[0, [path[-1] for one in added for path in one.branches]])
    loss, right = wish_hints(probes, seen[probes.matched][0, [one.prefix_end for one in added]].cpu(), wishes)
    return WishesMidway(grades.unflatten(0, (len(wishes), -1)), loss, right)


def wish_hints(probes: Probes, ends: Tensor, wishes: Sequence[Wish]) -> tuple[Tensor, float]:
    """ends: [wishes, width] -> loss and right share of the grades that the probes find."""
    odds = probes.wishes(ends).flatten(0, 1)
    grades = torch.tensor([wish.grades for wish in wishes]).flatten()
    return F.cross_entropy(odds, grades), (odds.argmax(-1) == grades).float().mean().item()


def _name_loss(probes: Probes, matched: Tensor, places: HintPlaces) -> tuple[Tensor, dict[str, float]]:
    """Which of the names in the cards fit the problem."""
    odds = probes.matches(matched[[places.problem_end]], matched[places.names])[0]
    target = torch.tensor(places.meant)
    figures = {"matched": _share_told(odds, target)}
    if target.any():
        figures["found"] = (odds[target > 0] > 0).float().mean().item()
    return F.binary_cross_entropy_with_logits(odds, target), figures


def _settled_loss(probes: Probes, end: Tensor, settled: tuple[bool, bool]) -> tuple[Tensor, dict[str, float]]:
    """Whether the evidence that ends there settles the problem."""
    odds, target = probes.settled(end), torch.tensor(settled).float()
    return F.binary_cross_entropy_with_logits(odds, target), {"settled": _share_told(odds, target)}


def _share_told(odds: Tensor, target: Tensor) -> float:
    return ((odds > 0) == (target > 0)).float().mean().item()


def _statement_loss(
    probes: Probes, matched: Tensor, read: Tensor, hints: list[StatementHint]
) -> tuple[Tensor, dict[str, float]]:
    bearing_odds = probes.bearings(read)
    bearings, grades, graded = statement_targets(hints)
    loss = F.cross_entropy(bearing_odds, bearings)
    figures = {"bearing": (bearing_odds.argmax(-1) == bearings).float().mean().item()}
    if graded.any():
        found = probes.grades(matched)[graded].log_softmax(-1)
        loss = loss - (grades[graded] * found).sum(-1).mean()
        figures["stated"] = (found.argmax(-1) == grades[graded].argmax(-1)).float().mean().item()
    return loss, figures


def _problem_end(reader: Reader, reading: Reading) -> int:
    """Where the problem ends, before any evidence."""
    context = reader.model.config.context
    segments = problem_prefix(reading.problem, "", reading.evidence, context, reader.contract)
    bare = reader.encode(segments[:-1])
    # As it stands in the prompt: a long one is cut, and what is no text is replaced.
    shown = well_formed(keep_tail(reading.problem, prompt_budgets(context, reader.contract).problem))
    return len(bare) + reader.place(segments[-1:], shown, len(shown))
