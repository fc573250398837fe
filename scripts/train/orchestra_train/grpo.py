"""GRPO over whole runs, exactly on-policy, on the distribution that the gateway serves.

Departures from the paper: stateless turns, each a sample of its own with its run's advantage (as in the released code);
log-probabilities over the admissible choices, not over the vocabulary; one gradient step a batch, so the ratio is one
and there is nothing to clip; no KL term; `gated_gdpo` by default; malformed rollouts cannot occur where choices are
scored, and score 0 and stay where calls are written (`written.py`); latency is the tools' modelled one, not the clock;
modelled tools instead of paid ones.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from .contract.load import Contract
from .detectors import GroupTrace, RunTrace, degenerate_shares
from .episodes import EpisodeSource
from .filters import Kept, component_filter, paper_filter
from .journal import Journal
from .model import Decoder
from .policy import Policy, Turn
from .processes import gather_parts, own_part, sum_values
from .reward import Array, Group, Preference, RunningSpread, advantages
from .rollout import Rollout
from .sharding import begin_step, clip_gradients, sum_gradients
from .world.decide import realised_utility
from .world.episode import Episode, Run
from .world.roster import WorldShape
from .written import WritingPolicy, play_written, written_backward


@dataclass(frozen=True)
class GrpoSettings:
    steps: int
    episodes: int = 8
    rollouts: int = 16
    learning_rate: float = 3e-4
    reward: str = "gated_gdpo"
    filter: str = "component"
    # Weights of the preference that the reward leaves out: cost, latency, liking.
    without: tuple[str, ...] = ()
    entropy: float = 0.0
    seed: int = 1
    checkpoint_every: int = 10
    # Fingerprint of the checkpoint that the weights come from, where it is of another folder.
    origin: str = ""
    # Share of episodes that replay recorded outcomes.
    recorded: float = 0.0
    # Name of what the policy renders its prompts by; weights are exported under it.
    contract: str = ""


@dataclass(frozen=True)
class Measured:
    """What runs came to, group by group; `answered` [G] says which of them ended with an answer."""

    groups: list[Group]
    preferences: list[Preference]
    answered: list[Array]


@dataclass(frozen=True)
class Batch:
    """What one step learns from. `backward` takes advantages [G] a group and returns loss and entropy."""

    measured: Measured
    backward: Callable[[list[Array]], tuple[float, float]]
    figures: dict[str, float]


def reinforce(model: Decoder, play_step: Callable[[int], Batch], settings: GrpoSettings, folder: Path) -> Journal:
    """The loop, whatever is played. What `play_step` plays follows from its number alone, so a kill changes nothing."""
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learnt, lr=settings.learning_rate, weight_decay=0.0)
    journal = Journal(folder, "grpo")
    first, more = journal.resume(model, optimizer)
    course = journal.same_course(asdict(settings), more)
    spread = RunningSpread()
    if more:
        spread = RunningSpread(more["decay"], more["scores"], np.array(more["parts"]))
    for step in journal.steps(first, settings.steps):
        begin_step(model)
        batch = play_step(step)
        weights, kept = _weigh(batch.measured, settings, spread)
        optimizer.zero_grad()
        loss, entropy = sum_values(*batch.backward(weights))
        sum_gradients(model)
        norm = clip_gradients(learnt, 1.0)
        if any(kept):
            optimizer.step()
        share = float(np.mean(kept))
        journal.log(step, loss=loss, entropy=entropy, gradient_norm=norm, **batch.figures, groups_kept=share)
        if (step + 1) % settings.checkpoint_every == 0 or step + 1 == settings.steps:
            saved = asdict(spread)
            journal.save(step + 1, model, optimizer, {**saved, "parts": saved["parts"].tolist(), **course})
    return journal


def train_grpo(policy: Policy, shape: WorldShape, contract: Contract, settings: GrpoSettings, folder: Path) -> Journal:
    player = play_written if isinstance(policy, WritingPolicy) else play
    source = EpisodeSource(shape, settings.recorded)

    def play_step(step: int) -> Batch:
        rng = np.random.default_rng([settings.seed, 1, step])
        episodes = [source.fresh(rng) for _ in range(settings.episodes)]
        if isinstance(policy, WritingPolicy):
            policy.sampler.take_weights(policy.model)
        groups = player(policy, episodes, settings.rollouts, contract, rng)
        return Batch(
            measure(groups),
            lambda weights: _backward(policy, groups, weights, settings.entropy),
            _figures(groups, contract),
        )

    return reinforce(policy.model, play_step, settings, folder)


@torch.no_grad()
def play(
    policy: Policy, episodes: list[Episode], rollouts: int, contract: Contract, rng: np.random.Generator
) -> list[list[Rollout]]:
    """All runs in step, so that each forward pass serves every run that is still going."""
    # Luck falls anew for each rollout, so that a group tells chance from choice.
    groups = [
        [Rollout(number, Run(one.again(rng), contract, rng)) for _ in range(rollouts)]
        for number, one in enumerate(episodes)
    ]
    going = [rollout for group in groups for rollout in group]
    while going:
        turns = [rollout.turn() for rollout in going]
        states = [_state(rollout.group, turn) for rollout, turn in zip(going, turns, strict=True)]
        distinct = dict(zip(states, turns, strict=True))
        own = own_part(list(distinct.values()))
        rows = policy.log_probabilities(own) if own else []
        found = dict(zip(distinct, gather_parts(rows, len(distinct)), strict=True))
        for rollout, turn, state in zip(going, turns, states, strict=True):
            scores = found[state]
            chances = scores.double().exp().numpy()
            number = int(rng.choice(len(chances), p=chances / chances.sum()))
            rollout.decisions.append((turn, number))
            rollout.run.step(turn.choices[number])
        going = [rollout for rollout in going if not rollout.run.done]
    return groups


def _state(group: int, turn: Turn) -> str:
    """Runs of a group stand at the same place time and again: each place is computed once.

    Who failed leaves no evidence, but is no longer open.
    """
    return f"{group} {turn.run.turns_left} {sorted(turn.run.lost)} {turn.run.evidence}"


def measure(groups: list[list[Rollout]]) -> Measured:
    return Measured(
        [group_of(group) for group in groups],
        [preference_of(group[0].run.episode) for group in groups],
        [np.array([rollout.run.answered_by is not None for rollout in group]) for group in groups],
    )


def _weigh(measured: Measured, settings: GrpoSettings, spread: RunningSpread) -> tuple[list[Array], list[bool]]:
    """Advantages [G] of each group, zero where a filter took them out; and which groups stayed."""
    preferences = [replace(one, **dict.fromkeys(settings.without, 0.0)) for one in measured.preferences]
    found = advantages(settings.reward, measured.groups, preferences, spread)
    each = zip(measured.groups, preferences, measured.answered, strict=True)
    kept = [_filter(settings.filter, group, preference, answered) for group, preference, answered in each]
    weights = [advantage * one.rollouts for advantage, one in zip(found, kept, strict=True)]
    return weights, [one.reason is None for one in kept]


def _filter(kind: str, group: Group, preference: Preference, answered: Array) -> Kept:
    match kind:
        case "component":
            return component_filter(group, preference)
        case "paper":
            return paper_filter(group, preference, answered)
        case "none":
            return Kept(np.ones(len(answered), bool), None)
    raise ValueError(f"no filter {kind}")


def group_of(rollouts: list[Rollout]) -> Group:
    tools = len(rollouts[0].run.episode.slots)
    runs = [rollout.run for rollout in rollouts]
    return Group(
        outcome=np.array([float(run.correct) for run in runs]),
        cost_usd=np.array([run.cost_usd for run in runs]),
        latency_s=np.array([run.latency_ms / 1000 for run in runs]),
        calls=np.array([np.bincount(run.calls, minlength=tools) for run in runs]),
        malformed=np.array([rollout.malformed is not None for rollout in rollouts]),
    )


def preference_of(episode: Episode) -> Preference:
    weights = episode.weights
    # Where privacy has weight, tools are liked by where they run.
    classes = np.array([("any", "no_training", "zdr", "self_hosted", "local").index(s.privacy) for s in episode.slots])
    return Preference(weights["quality"], weights["cost"], weights["latency"], weights["privacy"], classes / 2 - 1)


def _backward(
    policy: Policy, groups: list[list[Rollout]], weights: list[np.ndarray], bonus: float, at_once: int = 16
) -> tuple[float, float]:
    """Gradient of -Σ advantage × log π over all turns, divided by their number."""
    if isinstance(policy, WritingPolicy):
        return written_backward(policy, groups, weights), 0.0
    samples = [
        (rollout.group, turn, number, float(weight))
        for group, row in zip(groups, weights, strict=True)
        for rollout, weight in zip(group, row, strict=True)
        for turn, number in rollout.decisions
        if weight != 0 or bonus > 0
    ]
    if not samples:
        return 0.0, 0.0
    distinct: dict[str, tuple[Turn, list[tuple[int, float]]]] = {}
    for group, turn, number, weight in samples:
        distinct.setdefault(_state(group, turn), (turn, []))[1].append((number, weight))
    states = own_part(list(distinct.values()))
    loss, entropy = 0.0, 0.0
    # Piece by piece, so that memory does not grow with the batch; the sum of the gradients is the same.
    for first in range(0, len(states), at_once):
        piece = states[first : first + at_once]
        total = torch.zeros((), dtype=torch.float64)
        for row, (_, decisions) in zip(policy.log_probabilities([turn for turn, _ in piece]), piece, strict=True):
            share = -(row.exp() * row.clamp_min(-1e4)).sum() / len(distinct)
            entropy += share.item()
            total = total - sum(weight * row[number] for number, weight in decisions) / len(samples) - bonus * share
        total.backward()
        loss += total.item()
    return loss, entropy


def _figures(groups: list[list[Rollout]], contract: Contract) -> dict[str, float]:
    runs = [rollout.run for group in groups for rollout in group]
    return {
        "accuracy": float(np.mean([run.correct for run in runs])),
        "cost_usd": float(np.mean([run.cost_usd for run in runs])),
        "latency_s": float(np.mean([run.latency_ms for run in runs])) / 1000,
        "utility": float(np.mean([realised_utility(run, contract) for run in runs])),
        "turns": float(np.mean([len(rollout.decisions) for group in groups for rollout in group])),
        "malformed": float(np.mean([rollout.malformed is not None for group in groups for rollout in group])),
        **degenerate_shares([_trace(group) for group in groups]),
    }


def _trace(group: list[Rollout]) -> GroupTrace:
    slots = group[0].run.episode.slots
    answers = [number for number, slot in enumerate(slots) if slot.role == "answer"]
    runs = [RunTrace(tuple(one.run.calls), one.run.answered_by, one.run.preparations, one.run.correct) for one in group]
    liked = preference_of(group[0].run.episode)
    preferred = frozenset(np.flatnonzero(liked.tools > 0).tolist()) if liked.liking > 0 else frozenset()
    return GroupTrace(
        runs,
        strongest=max(answers, key=lambda number: slots[number].skills.mean()),
        cheapest=min(answers, key=lambda number: slots[number].cost_usd),
        preferred=preferred,
    )
