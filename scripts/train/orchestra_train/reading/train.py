"""Card reading, from the base model to an adapter: first long lists of names and statements, asked of the lower layers
alone, then cards and wishes, where every card of every problem is a target, short ones first."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..journal import Journal, checkpoint_fingerprint
from ..origin import probes_of
from .cards import CardShape
from .hints import GRADES, Probes
from .lists import RECORDED, fresh_list, list_loss, wish_list_loss
from .midway import read_midway, read_wishes
from .outcomes import fresh_recorded, outcome_loss
from .problems import open_subjects, problem_source
from .reader import Reader
from .rosters import Reading, ReadingShape, as_grades, fresh_reading, value_range
from .wishes import Wish, fresh_wish
from .wordings import Rng

Example = Reading | Wish
PROBE_RATE = 3e-3
# Of the loss of wishes beside that of cards.
WISHING = 0.5
# The curriculum: above which share it grows, how far a problem, over how many problems the share is told; a step of
# many problems counts as a few.
READS_WELL, GROWTH, CURRICULUM_MEMORY, A_FEW = 0.65, 0.003, 60, 3
# Between which parts of the course it grows in any case, from nothing to everything: all kinds of cards must come up.
GROWS_ANYWAY = (0.05, 0.35)
# Lists alone: how many a step, and how much faster than cards they are learnt at first. And wishes in a list of them.
LISTS_ALONE, HASTE, WISHES_LISTED = 6, 3.0, 8
WARM_UP, LEAST_RATE = 20, 0.05


@dataclass(frozen=True)
class CardSettings:
    # Of cards; those of lists alone come before them.
    steps: int
    problems: int = 1
    cards: int = 5
    learning_rate: float = 5e-4
    seed: int = 1
    checkpoint_every: int = 50
    check_every: int = 250
    check_problems: int = 16
    # Where the curriculum begins; 1 for a run that goes on from a trained adapter.
    start: float = 0.0
    # Share of problems that are recorded outcomes instead of the world's own.
    outcomes: float = 0.0
    # Wishes a step, beside the problems.
    wishes: int = 3
    # Weight of the hints beside the answers.
    hints: float = 0.5
    # Lists a step, beside the problems; and steps of lists alone.
    lists: int = 1
    lists_first: int = 0


def targets_of(example: Example) -> Tensor:
    """Weights of the grades, [branches, grades]."""
    if isinstance(example, Wish):
        return torch.eye(GRADES)[list(example.grades)]
    return torch.tensor(np.array([as_grades(tool.value, value_range(tool.role)) for tool in example.tools])).float()


def shape_at(level: float) -> ReadingShape:
    """From two plain sentences at level 0 to everything at 1."""
    late = max(0.0, 2 * level - 1)
    card = CardShape(
        named=0.85 - 0.35 * level,
        by_group=0.12 * level,
        by_whole=0.15 + 0.11 * level,
        most_others=1 + round(3 * level),
        measured=0.15 * level,
        aside=0.2 * level,
    )
    return ReadingShape(card, relative=0.1 * late, reported=0.15 * late, evidence=0.45 * late, helper=0.22 * late)


def fresh_problem(rng: Rng, settings: CardSettings, level: float) -> Reading:
    if rng.random() < settings.outcomes:
        return fresh_recorded(rng, settings.cards)
    return fresh_reading(rng, problem_source(unseen=False), settings.cards, shape_at(level), unseen=False)


@dataclass
class Curriculum:
    """Cards grow while the reader keeps up, and later in any case: `right` is a running share of grades read right."""

    level: float
    right: float = 0.0

    def reach(self, part: float) -> None:
        """`part`: of the course."""
        first, last = GROWS_ANYWAY
        self.level = max(self.level, min(1.0, (part - first) / (last - first)))

    def advance(self, right: float, problems: int) -> None:
        counted = min(problems, A_FEW)
        self.right += (right - self.right) * counted / CURRICULUM_MEMORY
        if self.right > READS_WELL:
            self.level = min(1.0, self.level + GROWTH * counted)


def card_optimizer(learnt: list[Tensor], probes: Probes, learning_rate: float) -> torch.optim.AdamW:
    """Groups tell their `initial` rate, from which a schedule goes."""
    groups = [
        {"params": learnt, "initial": learning_rate},
        {"params": list(probes.parameters()), "initial": PROBE_RATE},
    ]
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.0)


def rate_at(step: int, settings: CardSettings) -> float:
    """Of the learning rate: lists alone go down to it from above, cards from it to almost nothing."""
    if step < settings.lists_first:
        return lists_rate(step, step / settings.lists_first)
    on_cards = step - settings.lists_first
    return cards_rate(on_cards, on_cards / settings.steps)


def lists_rate(step: int, part: float) -> float:
    """`step` and `part`: how much of the lists lies behind."""
    return min(1.0, (step + 1) / WARM_UP) * (HASTE + (1 - HASTE) * part)


def cards_rate(step: int, part: float) -> float:
    return min(1.0, (step + 1) / WARM_UP) * max(LEAST_RATE, 1 - part)


def begin_probes(probes: Probes, saved: dict[str, Tensor] | None, folder: Path, origin: Path | None) -> None:
    """As `saved` in the folder, or as those of the `origin`, the file that the reader's weights come from."""
    if saved:
        probes.take_over(saved, folder)
    elif origin and (known := probes_of(origin)):
        probes.take_over(known, origin)
    elif origin:
        probes.begin_silent()


ReadingSource = Callable[[Rng, CardSettings, float], Reading]


def train_cards(
    reader: Reader,
    settings: CardSettings,
    folder: Path,
    source: ReadingSource = fresh_problem,
    origin: Path | None = None,
) -> Journal:
    """Metrics in `cards.jsonl`: loss, share of grades read right, tokens, CPU seconds; at times on unseen material.

    The probes of an `origin`, the checkpoint that the reader's weights come from, go on with it where it has any.
    """
    learnt = [parameter for parameter in reader.model.parameters() if parameter.requires_grad]
    probes = Probes(reader.model.config.width, reader.model.config.layers)
    optimizer = card_optimizer(learnt, probes, settings.learning_rate)
    journal = Journal(folder, "cards")
    first, more = journal.resume(reader.model, optimizer)
    begin_probes(probes, more.get("probes"), folder, origin)
    told = asdict(settings) | {"origin": checkpoint_fingerprint(origin)}
    course = journal.same_course(told, more)
    curriculum = Curriculum(**more.get("curriculum", {"level": settings.start}))
    last = settings.lists_first + settings.steps
    for step in journal.steps(first, last):
        started = time.process_time()
        # Data are a function of seed and step alone, so a resumed run sees what the killed one would have seen.
        rng = np.random.default_rng([settings.seed, step])
        alone = step < settings.lists_first
        for group in optimizer.param_groups:
            group["lr"] = group["initial"] * rate_at(step, settings)
        optimizer.zero_grad()
        figures = {}
        if not alone:
            curriculum.reach((step - settings.lists_first) / settings.steps)
            readings = [source(rng, settings, curriculum.level) for _ in range(settings.problems)]
            figures |= _learn_cards(reader, probes, readings, settings.hints)
            if settings.wishes:
                figures |= _learn_wishes(reader, probes, _wishes(rng, settings.wishes), settings.hints)
        if alone or settings.lists:
            figures |= _learn_lists(reader, probes, rng, settings, LISTS_ALONE if alone else settings.lists)
        norm = torch.nn.utils.clip_grad_norm_(learnt, 1.0).item()
        optimizer.step()
        # A step of recorded outcomes alone tells nothing of how well cards are read.
        if "right" in figures:
            curriculum.advance(figures["right"], settings.problems)
        figures["level"] = curriculum.level
        if (step + 1) % settings.check_every == 0 and not alone:
            figures |= check_reading(reader, settings.check_problems)
        journal.log(step, norm=norm, cpu_s=round(time.process_time() - started, 2), **figures)
        if (step + 1) % settings.checkpoint_every == 0 or step + 1 == last:
            reached = {"probes": probes.state_dict(), "curriculum": asdict(curriculum)}
            journal.save(step + 1, reader.model, optimizer, course | reached)
    return journal


def _learn_cards(reader: Reader, probes: Probes, readings: list[Reading], hints: float) -> dict[str, float]:
    """Adds the gradients of one step; a problem at a time, so that memory and attention stay small."""
    chances = torch.tensor(reader.contract["chances"])
    loss, right, tokens = 0.0, [], 0
    known: dict[str, list[float]] = {}
    for reading in readings:
        midway = read_midway(reader, probes, reading)
        tokens += midway.tokens
        for name, figure in midway.figures.items():
            known.setdefault(name, []).append(figure)
        if reading.recorded:
            part = outcome_loss(midway.grades, chances, reading)
        else:
            targets = targets_of(reading)
            part = -(targets * midway.grades).sum(-1).mean()
            right += (midway.grades.argmax(-1) == targets.argmax(-1)).tolist()
        ((part + hints * midway.hint_loss) / len(readings)).backward()
        loss += part.item() / len(readings)
    if right:
        known["right"] = right
    return {"loss": loss, "tokens": tokens} | {name: float(np.mean(figures)) for name, figures in known.items()}


def _learn_wishes(reader: Reader, probes: Probes, wishes: list[Wish], hints: float) -> dict[str, float]:
    midway = read_wishes(reader, probes, wishes)
    targets = torch.stack([targets_of(wish) for wish in wishes])
    loss = -(targets * midway.grades).sum(-1).mean()
    (WISHING * loss + hints * midway.hint_loss).backward()
    right = (midway.grades.argmax(-1) == targets.argmax(-1)).float().mean().item()
    return {"wish_loss": loss.item(), "wished": right, "wished_midway": midway.right}


def _learn_lists(reader: Reader, probes: Probes, rng: Rng, settings: CardSettings, count: int) -> dict[str, float]:
    problems, subjects = problem_source(unseen=False), open_subjects(unseen=False)
    recorded = RECORDED if settings.outcomes else 0.0
    lists = [fresh_list(rng, problems, subjects, recorded) for _ in range(count)]
    loss, figures = list_loss(reader, probes, lists)
    (settings.hints * loss).backward()
    loss, wished = wish_list_loss(reader, probes, _wishes(rng, WISHES_LISTED))
    (settings.hints * loss).backward()
    return figures | wished


def _wishes(rng: Rng, count: int) -> list[Wish]:
    return [fresh_wish(rng, unseen=False) for _ in range(count)]


@torch.no_grad()
def check_reading(reader: Reader, problems: int) -> dict[str, float]:
    """Share of grades read right on unseen material, answerers and wishes apart; plain cards, then all kinds."""
    figures = {}
    shapes = {"plain": replace(ReadingShape(), evidence=0, helper=0, relative=0, reported=0), "full": ReadingShape()}
    for name, shape in shapes.items():
        rng = np.random.default_rng(10_000)
        readings = [fresh_reading(rng, problem_source(True), 5, shape, unseen=True) for _ in range(problems)]
        figures[f"unseen_{name}"] = _share_right(reader, readings)
    figures["unseen_wish"] = _share_right(
        reader, [fresh_wish(np.random.default_rng([7, n]), True) for n in range(problems)]
    )
    return figures


def _share_right(reader: Reader, examples: list[Reading] | list[Wish]) -> float:
    right = []
    for example in examples:
        [found] = reader.grades([reader.tree(example)])
        right += (found.argmax(-1) == targets_of(example).argmax(-1)).tolist()
    return float(np.mean(right))
