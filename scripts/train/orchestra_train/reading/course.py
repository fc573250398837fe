"""The course of a timed run: so many steps or so many seconds, the first part of them on lists alone."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from .packed import ROW_TOKENS
from .train import cards_rate, lists_rate


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
    # Share of the course that lists alone have.
    lists_first: float = 0.0
    # Where the curriculum begins, and how far below the present level examples are drawn.
    start: float = 0.0
    window: float = 0.1
    # Weight of the hints beside the answers.
    hints: float = 0.5
    seed: int = 1
    # The file that the weights come from, where it is not of the run's own folder.
    origin: Path | None = None
    checkpoint_every: int = 100


@dataclass
class Reached:
    """What outlasts a kill: seconds spent, the longest step in seconds, the step and second at which cards began."""

    spent_s: float = 0.0
    longest_s: float = 0.0
    cards_step: int | None = None
    cards_s: float = 0.0


@dataclass(frozen=True)
class Step:
    """`part`: how much of the lists, or else of the cards, lies behind it; `rate`: of the learning rate."""

    number: int
    on_lists: bool
    part: float
    rate: float


class Course:
    """Steps until as many are done, or until one more would end too late."""

    def __init__(self, settings: TimedSettings, first: int, reached: Reached, clock_s: Callable[[], float]) -> None:
        self._settings = settings
        self._reached = reached
        self._clock_s = clock_s
        self._started = clock_s() - reached.spent_s
        self.next_step = first

    def spent_s(self) -> float:
        return self._clock_s() - self._started

    def reached(self) -> Reached:
        self._reached.spent_s = self.spent_s()
        return self._reached

    def __iter__(self) -> Iterator[Step]:
        seconds, steps = self._settings.seconds, self._settings.steps
        initial = self.next_step if steps else 0
        with tqdm(total=steps or round(seconds), initial=initial, desc="timed", mininterval=2) as bar:
            while True:
                begun = self.spent_s()
                over = begun + self._reached.longest_s >= seconds if steps is None else self.next_step >= steps
                if over:
                    return
                yield self._step(begun)
                self.next_step += 1
                self._reached.longest_s = max(self._reached.longest_s, self.spent_s() - begun)
                bar.update(1 if steps else round(self.spent_s()) - bar.n)

    def _step(self, begun: float) -> Step:
        by_time = self._settings.steps is None
        done, whole = (begun, self._settings.seconds) if by_time else (self.next_step, self._settings.steps)
        reached = self._reached
        if reached.cards_step is None:
            of_lists = self._settings.lists_first * whole
            if done < of_lists:
                part = done / of_lists
                return Step(self.next_step, True, part, lists_rate(self.next_step, part))
            # For good, even where a run that goes on has more time or steps than before.
            reached.cards_step, reached.cards_s = self.next_step, begun
        since = reached.cards_s if by_time else reached.cards_step
        part = (done - since) / (whole - since)
        return Step(self.next_step, False, part, cards_rate(self.next_step - reached.cards_step, part))
