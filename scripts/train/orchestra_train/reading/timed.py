"""Card reading on a GPU: packed examples, many trees a step, for so many steps or for so many seconds."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from ..journal import Journal
from .batches import BatchLoss, batch_loss, batches_of
from .hints import Probes
from .packed import ROW_TOKENS, Packed
from .reader import Reader
from .train import Curriculum, card_optimizer


@dataclass(frozen=True)
class TimedSettings:
    """`seconds` bounds the training when `steps` is not told."""

    seconds: float
    steps: int | None = None
    examples: int = 256
    width: int = ROW_TOKENS
    # Rows whose activations are held together.
    rows_at_once: int = 32
    learning_rate: float = 5e-4
    # Where the curriculum begins, and how far below the present level examples are drawn.
    start: float = 0.0
    window: float = 0.1
    # Weight of the hints beside the answers.
    hints: float = 0.5
    seed: int = 1
    # Fingerprint of the checkpoint that the weights come from, where it is of another folder.
    origin: str = ""
    checkpoint_every: int = 100


def train_packed(
    reader: Reader,
    packed: Packed,
    settings: TimedSettings,
    folder: Path,
    clock_s: Callable[[], float] = time.monotonic,
) -> Journal:
    """Metrics in `timed.jsonl`: loss, share of grades read right, level of the curriculum, tokens, seconds."""
    learnt = [parameter for parameter in reader.model.parameters() if parameter.requires_grad]
    probes = Probes(reader.model.config.width, reader.model.config.layers).to(reader.model.device)
    optimizer = card_optimizer(learnt, probes, settings.learning_rate)
    journal = Journal(folder, "timed")
    first, more = journal.resume(reader.model, optimizer)
    if "probes" in more:
        probes.take_over(more["probes"], folder)
    curriculum = Curriculum(**more.get("curriculum", {"level": settings.start}))
    same = journal.same_course(asdict(settings), more)
    course = _Course(settings, first, more.get("spent_s", 0.0), clock_s)

    def save(next_step: int) -> None:
        state = {"probes": probes.state_dict(), "curriculum": asdict(curriculum), "spent_s": course.spent_s()}
        journal.save(next_step, reader.model, optimizer, same | state)

    for step, part in course:
        for group in optimizer.param_groups:
            group["lr"] = group["initial"] * min(1.0, (step + 1) / 20) * max(0.05, 1 - part)
        optimizer.zero_grad()
        numbers = _drawn(packed, curriculum.level, step, settings)
        figures = _learn_from(reader, probes, packed, numbers, settings)
        norm = torch.nn.utils.clip_grad_norm_(learnt, 1.0).item()
        optimizer.step()
        # A step of recorded outcomes alone tells nothing of how well cards are read.
        if "right" in figures:
            curriculum.advance(figures["right"], settings.examples)
        journal.log(step, seconds=round(course.spent_s(), 2), norm=norm, level=curriculum.level, **figures)
        if (step + 1) % settings.checkpoint_every == 0:
            save(step + 1)
    save(course.step)
    return journal


def _learn_from(
    reader: Reader, probes: Probes, packed: Packed, numbers: np.ndarray, settings: TimedSettings
) -> dict[str, float]:
    """Adds the gradients of one step."""
    sums = torch.zeros(len(fields(BatchLoss)), device=reader.model.device)
    for batch in batches_of(packed, numbers, settings.width, settings.rows_at_once):
        found = batch_loss(reader, probes, batch)
        (found.answers + settings.hints * found.hints).backward()
        sums += torch.stack([part.detach() for part in vars(found).values()])
    # The one place where the processor waits for the device.
    loss, hint_loss, *told = sums.tolist()
    tokens = int(np.diff(packed.tree_starts)[numbers].sum())
    return {"loss": loss, "hint_loss": hint_loss, "tokens": tokens} | _shares(*told)


def _shares(right: float, graded: float, wished: float, wish_graded: float) -> dict[str, float]:
    """Of grades read right, where any were asked for."""
    shares = {"right": (right, graded), "wished": (wished, wish_graded)}
    return {name: hits / asked for name, (hits, asked) in shares.items() if asked}


class _Course:
    """Numbers of the steps, each with the part of the course that lies behind it, until steps or time are spent."""

    def __init__(self, settings: TimedSettings, first: int, spent_s: float, clock_s: Callable[[], float]) -> None:
        self._settings = settings
        self._clock_s = clock_s
        self._started = clock_s() - spent_s
        self.step = first

    def spent_s(self) -> float:
        return self._clock_s() - self._started

    def __iter__(self) -> Iterator[tuple[int, float]]:
        seconds, steps = self._settings.seconds, self._settings.steps
        longest_s = 0.0
        with tqdm(total=steps or round(seconds), initial=self.step if steps else 0, desc="timed", mininterval=2) as bar:
            while True:
                begun = self.spent_s()
                # A step that would end too late does not begin.
                if self.step >= steps if steps is not None else begun + longest_s >= seconds:
                    return
                yield self.step, begun / seconds if steps is None else self.step / steps
                self.step += 1
                longest_s = max(longest_s, self.spent_s() - begun)
                bar.update(1 if steps else round(self.spent_s()) - bar.n)


def _drawn(packed: Packed, level: float, step: int, settings: TimedSettings) -> np.ndarray:
    """A function of seed, step and level alone."""
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
