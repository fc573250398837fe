"""Card reading on a GPU: packed examples, many trees a step, for so many steps or for so many seconds."""

import time
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..journal import Journal, checkpoint_fingerprint
from .batches import BatchLoss, batch_loss, batches_of
from .course import Course, Reached, Step, TimedSettings
from .hints import Probes
from .packed import Packed
from .packed_lists import asked_of, list_batch_loss
from .reader import Reader
from .train import Curriculum, begin_probes, card_optimizer


def train_packed(
    reader: Reader,
    cards: Packed,
    lists: Packed,
    settings: TimedSettings,
    folder: Path,
    clock_s: Callable[[], float] = time.monotonic,
) -> Journal:
    """Metrics in `timed.jsonl`: loss, shares of answers read right, level of the curriculum, tokens, seconds.

    The probes of an `origin` go on with the weights where it has any.
    """
    learnt = [parameter for parameter in reader.model.parameters() if parameter.requires_grad]
    probes = Probes(reader.model.config.width, reader.model.config.layers).to(reader.model.device)
    optimizer = card_optimizer(learnt, probes, settings.learning_rate)
    journal = Journal(folder, "timed")
    first, more = journal.resume(reader.model, optimizer)
    same = journal.same_course(_told(settings), more)
    if more and "reached" not in more:
        raise SystemExit(f"{folder} was trained with an earlier version: take another folder")
    begin_probes(probes, more.get("probes"), folder, settings.origin)
    curriculum = Curriculum(**more.get("curriculum", {"level": settings.start}))
    course = Course(settings, first, Reached(**more.get("reached", {})), clock_s)

    def save(next_step: int) -> None:
        state = {"probes": probes.state_dict(), "curriculum": asdict(curriculum), "reached": asdict(course.reached())}
        journal.save(next_step, reader.model, optimizer, same | state)

    for step in course:
        for group in optimizer.param_groups:
            group["lr"] = group["initial"] * step.rate
        optimizer.zero_grad()
        if step.on_lists:
            figures = _learn_lists(reader, probes, lists, step, settings)
        else:
            curriculum.reach(step.part)
            figures = _learn_cards(reader, probes, cards, step, curriculum.level, settings)
        norm = torch.nn.utils.clip_grad_norm_(learnt, 1.0).item()
        optimizer.step()
        # A step of recorded outcomes alone tells nothing of how well cards are read.
        if "right" in figures:
            curriculum.advance(figures["right"], settings.examples)
        journal.log(step.number, seconds=round(course.spent_s(), 2), norm=norm, level=curriculum.level, **figures)
        if (step.number + 1) % settings.checkpoint_every == 0:
            save(step.number + 1)
    save(course.next_step)
    return journal


def refuse_other_course(settings: TimedSettings, folder: Path) -> None:
    """Before anything long is done.

    @raises SystemExit where the folder was trained with other settings.
    """
    checkpoint = folder / "timed.pt"
    if checkpoint.exists():
        more = torch.load(checkpoint, map_location="cpu", weights_only=True)["more"]
        Journal(folder, "timed").same_course(_told(settings), more)


def _told(settings: TimedSettings) -> dict[str, Any]:
    return asdict(settings) | {"origin": checkpoint_fingerprint(settings.origin)}


def _learn_lists(
    reader: Reader, probes: Probes, lists: Packed, step: Step, settings: TimedSettings
) -> dict[str, float]:
    """Adds the gradients of one step."""
    # All lists are of the lowest level.
    numbers = drawn(lists, 0.0, step.number, settings)
    asked = asked_of(lists, numbers)
    sums = torch.zeros(1 + len(vars(asked)), device=reader.model.device)
    for batch in batches_of(lists, numbers, settings.width, settings.rows_at_once):
        found = list_batch_loss(reader, probes, batch, asked)
        (settings.hints * found.loss).backward()
        sums += torch.cat([found.loss.detach()[None], found.right])
    # The one place where the processor waits for the device.
    loss, *right = sums.tolist()
    shares = {name: hits / times for hits, (name, times) in zip(right, vars(asked).items(), strict=True) if times}
    return {"list_loss": loss, "tokens": _tokens(lists, numbers)} | shares


def _learn_cards(
    reader: Reader, probes: Probes, cards: Packed, step: Step, level: float, settings: TimedSettings
) -> dict[str, float]:
    """Adds the gradients of one step."""
    numbers = drawn(cards, level, step.number, settings)
    sums = torch.zeros(len(fields(BatchLoss)), device=reader.model.device)
    for batch in batches_of(cards, numbers, settings.width, settings.rows_at_once):
        found = batch_loss(reader, probes, batch)
        (found.answers + settings.hints * found.hints).backward()
        sums += torch.stack([part.detach() for part in vars(found).values()])
    # The one place where the processor waits for the device.
    loss, hint_loss, *told = sums.tolist()
    return {"loss": loss, "hint_loss": hint_loss, "tokens": _tokens(cards, numbers)} | _shares(*told)


def _shares(right: float, graded: float, wished: float, wish_graded: float) -> dict[str, float]:
    """Of grades read right, where any were asked for."""
    shares = {"right": (right, graded), "wished": (wished, wish_graded)}
    return {name: hits / asked for name, (hits, asked) in shares.items() if asked}


def _tokens(packed: Packed, numbers: np.ndarray) -> int:
    return int(np.diff(packed.tree_starts)[numbers].sum())


def drawn(packed: Packed, level: float, step: int, settings: TimedSettings) -> np.ndarray:
    """A function of seed, step and level alone. Packs that begin above the level are drawn from their beginning on."""
    level = max(level, float(packed.levels[0]))
    last = int(np.searchsorted(packed.levels, level, side="right"))
    last = min(len(packed), max(last, 2 * settings.examples))
    first = min(int(np.searchsorted(packed.levels, level - settings.window)), max(0, last - 2 * settings.examples))
    rng = np.random.default_rng([settings.seed, step])
    return first + rng.choice(last - first, min(settings.examples, last - first), replace=False)


@torch.no_grad()
def examine(reader: Reader, packed: Packed, settings: TimedSettings) -> dict[str, float]:
    """Loss and shares of grades read right, of cards and of wishes, on examples that nothing was learnt from."""
    probes = Probes(reader.model.config.width, reader.model.config.layers).to(reader.model.device)
    sums = torch.zeros(len(fields(BatchLoss)), device=reader.model.device)
    for batch in batches_of(packed, range(len(packed)), settings.width, settings.rows_at_once):
        sums += torch.stack([*vars(batch_loss(reader, probes, batch)).values()])
    loss, _, *told = sums.tolist()
    return {name: round(figure, 4) for name, figure in {"loss": loss, **_shares(*told)}.items()}
