"""Warm start: what the simulated world knows is told to the policy, before it learns from its own runs.

For `beliefs-1` every card of every problem is a target; for `slots-*` the softened choice of the search under true
beliefs. Departure from the paper, which describes no such stage: a small policy that starts from nothing never sees a
group with differing outcomes.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from .contract.load import Contract
from .episodes import EpisodeSource
from .journal import Journal
from .model import Decoder
from .policy import Policy, Turn
from .processes import own_part, sum_values
from .sharding import begin_step, clip_gradients, sum_gradients
from .world.episode import Episode, Run, fresh_episode
from .world.roster import WorldShape

Example = TypeVar("Example")


@dataclass(frozen=True)
class SftSettings:
    steps: int
    episodes: int = 8
    learning_rate: float = 1e-3
    # Examples whose activations are held together.
    at_once: int = 8
    seed: int = 1
    checkpoint_every: int = 50
    # Fingerprint of the checkpoint that the weights come from, where it is of another folder.
    origin: str = ""
    # Share of episodes that replay recorded outcomes.
    recorded: float = 0.0
    # Name of what the policy renders its prompts by; weights are exported under it.
    contract: str = ""


class Pupil(Protocol[Example]):
    """What can be told what to do, by examples of its own kind."""

    model: Decoder

    def warm_start_loss(self, examples: Sequence[Example]) -> Tensor:
        """A mean over `targets`; a scalar."""

    def targets(self, examples: Sequence[Example]) -> int: ...


def train_sft(policy: Policy, shape: WorldShape, contract: Contract, settings: SftSettings, folder: Path) -> Journal:
    """`contract` holds the rules of the run (attempts, budgets); the policy renders by its own."""
    source = EpisodeSource(shape, settings.recorded)
    return imitate(policy, lambda rng: turn_within(source.fresh(rng), contract, rng), settings, folder)


def imitate(
    pupil: Pupil[Example], draw: Callable[[np.random.Generator], Example], settings: SftSettings, folder: Path
) -> Journal:
    """The loop, whatever is shown."""
    learnt = [parameter for parameter in pupil.model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learnt, lr=settings.learning_rate, weight_decay=0.0)
    journal = Journal(folder, "sft")
    first, more = journal.resume(pupil.model, optimizer)
    course = journal.same_course(asdict(settings), more)
    for step in journal.steps(first, settings.steps):
        # Data are a function of seed and step alone, so a resumed run sees what the killed one would have seen.
        rng = np.random.default_rng([settings.seed, step])
        examples = [draw(rng) for _ in range(settings.episodes)]
        warm_up = min(1.0, (step + 1) / 20)
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * warm_up * max(0.1, 1 - step / settings.steps)
        optimizer.zero_grad()
        begin_step(pupil.model)
        loss = 0.0
        own = own_part(examples)
        for start in range(0, len(own), settings.at_once):
            piece = own[start : start + settings.at_once]
            part = pupil.warm_start_loss(piece) * pupil.targets(piece) / pupil.targets(examples)
            part.backward()
            loss += part.item()
        sum_gradients(pupil.model)
        [loss] = sum_values(loss)
        norm = clip_gradients(learnt, 1.0)
        optimizer.step()
        journal.log(step, loss=loss, gradient_norm=norm)
        if (step + 1) % settings.checkpoint_every == 0 or step + 1 == settings.steps:
            journal.save(step + 1, pupil.model, optimizer, course)
    return journal


def random_turn(rng: np.random.Generator, shape: WorldShape, contract: Contract) -> Turn:
    """Of a fresh episode of the world."""
    return turn_within(fresh_episode(rng, shape), contract, rng)


def turn_within(episode: Episode, contract: Contract, rng: np.random.Generator) -> Turn:
    """A turn of a random walk through the episode, the first one most often."""
    run = Run(episode, contract, rng)
    turn = Turn(copy.copy(run), run.choices())
    while rng.random() < 0.4:
        run.step(turn.choices[rng.integers(len(turn.choices))])
        if run.done:
            break
        turn = Turn(copy.copy(run), run.choices())
    return turn
