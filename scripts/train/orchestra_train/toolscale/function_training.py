"""Function calls learnt: a warm start on ways that work, then whole runs under the rewards and filters of the world.

Outcome is the three checks; runs that are malformed or come to no answer score 0 and stay. Cost is the policy's own
tokens at the price that ToolOrchestra puts on its base, and those of experts; latency is modelled, not the clock.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..grpo import Batch, GrpoSettings, Measured, reinforce
from ..journal import Journal
from ..lanes import Lanes
from ..passages import own_log_probabilities
from ..processes import gather_parts, own_part
from ..reward import Array, Group, Preference
from ..sft import SftSettings, imitate
from .function_policy import FunctionPolicy
from .task_pool import Case, TaskPool
from .task_run import FinishedRun, TaskRun, demonstration

USD_A_TOKEN = 0.2e-6
SECONDS_A_TOKEN = 0.02
SECONDS_A_CALL = 0.5

Choose = Callable[[Tensor, Sequence[np.random.Generator]], list[int]]


def sampled(scores: Tensor, rngs: Sequence[np.random.Generator]) -> list[int]:
    """Temperature 1 without cuts: the distribution that is trained. scores: [runs, vocabulary]"""
    heights = scores.double().softmax(-1).cumsum(-1)
    drawn = torch.tensor([rng.random() for rng in rngs], dtype=torch.float64)[:, None] * heights[:, -1:]
    return torch.searchsorted(heights, drawn, right=True)[:, 0].clamp_max(scores.shape[1] - 1).tolist()


def likeliest(scores: Tensor, _: Sequence[np.random.Generator]) -> list[int]:
    return scores.argmax(-1).tolist()


def play(
    policy: FunctionPolicy, cases: Sequence[Case], rollouts: int, seed: Sequence[int], choose: Choose = sampled
) -> list[list[FinishedRun]]:
    """Runs of each case, all side by side. Luck belongs to the place of a run, whichever process plays it."""
    own = own_part(list(enumerate(cases)))
    runs = [
        TaskRun(policy, case, np.random.default_rng([*seed, place, copy]))
        for place, case in own
        for copy in range(rollouts)
    ]
    if runs:
        _play_out(policy, runs, rollouts, choose)
    finished = [run.finished() for run in runs]
    groups = [finished[start : start + rollouts] for start in range(0, len(finished), rollouts)]
    return gather_parts(groups, len(cases))


def _play_out(policy: FunctionPolicy, runs: Sequence[TaskRun], copies: int, choose: Choose) -> None:
    lanes = Lanes(policy.model, [run.prompt for run in runs[::copies]], copies)

    def next_tokens(active: list[int], scores: Tensor) -> list[int]:
        return choose(scores, [runs[lane].rng for lane in active])

    going = list(range(len(runs)))
    while going:
        written = lanes.write(going, next_tokens, policy.end, policy.limits.most_tokens)
        lanes.read([runs[lane].take(written[lane]) if lane in written else [] for lane in range(len(runs))])
        going = [lane for lane in going if not runs[lane].done]


def imitate_ways(policy: FunctionPolicy, pool: TaskPool, settings: SftSettings, folder: Path) -> Journal:
    """Warm start: without it an untrained policy never writes a call, and no group differs in anything."""
    return imitate(policy, lambda rng: demonstration(policy, pool.draw(rng), rng), settings, folder)


def reinforce_runs(policy: FunctionPolicy, pool: TaskPool, settings: GrpoSettings, folder: Path) -> Journal:
    def play_step(step: int) -> Batch:
        rng = np.random.default_rng([settings.seed, 2, step])
        cases = [pool.draw(rng) for _ in range(settings.episodes)]
        groups = play(policy, cases, settings.rollouts, [settings.seed, 3, step])
        return Batch(
            measure(cases, groups),
            lambda weights: backward(policy, groups, weights),
            means([run for group in groups for run in group]),
        )

    return reinforce(policy.model, play_step, settings, folder)


def measure(cases: Sequence[Case], groups: Sequence[Sequence[FinishedRun]]) -> Measured:
    return Measured(
        [_group(case, runs) for case, runs in zip(cases, groups, strict=True)],
        [_preference(case) for case in cases],
        [np.array([run.answered for run in runs]) for runs in groups],
    )


def _preference(case: Case) -> Preference:
    weights = case.weights
    return Preference(weights["quality"], weights["cost"], weights["latency"], 0.0, np.zeros(len(case.domain.tools)))


def _group(case: Case, runs: Sequence[FinishedRun]) -> Group:
    counts = [Counter(run.called) for run in runs]
    return Group(
        outcome=np.array([run.outcome for run in runs]),
        cost_usd=np.array([cost_usd(run) for run in runs]),
        latency_s=np.array([latency_s(run) for run in runs]),
        calls=np.array([[count[tool["name"]] for tool in case.domain.tools] for count in counts]),
        malformed=np.array([run.malformed is not None for run in runs]),
    )


def cost_usd(run: FinishedRun) -> float:
    return (run.tokens_read + run.tokens_written) * USD_A_TOKEN + run.experts_usd


def latency_s(run: FinishedRun) -> float:
    return run.tokens_written * SECONDS_A_TOKEN + len(run.called) * SECONDS_A_CALL + run.experts_s


def backward(
    policy: FunctionPolicy, groups: Sequence[Sequence[FinishedRun]], weights: Sequence[Array]
) -> tuple[float, float]:
    """Gradient of -Σ advantage × log π over all tokens that are learnt, divided by their number."""
    learnt = [
        [(run.passage, float(weight)) for run, weight in zip(runs, row, strict=True) if weight != 0]
        for runs, row in zip(groups, weights, strict=True)
    ]
    tokens = sum(sum(passage.own) for group in learnt for passage, _ in group)
    loss = 0.0
    # A group at a time: its prompt is computed once.
    for group in own_part([group for group in learnt if group]):
        rows = own_log_probabilities(policy.model, [passage for passage, _ in group])
        total = -sum(weight * row.sum() for (_, weight), row in zip(group, rows, strict=True)) / tokens
        total.backward()
        loss += total.item()
    return loss, 0.0


def means(runs: Sequence[FinishedRun]) -> dict[str, float]:
    return {
        "solved": float(np.mean([run.outcome for run in runs])),
        "execution": float(np.mean([run.verdict.execution for run in runs])),
        "process": float(np.mean([run.verdict.process for run in runs])),
        "completeness": float(np.mean([run.verdict.completeness for run in runs])),
        "malformed": float(np.mean([run.malformed is not None for run in runs])),
        "unanswered": float(np.mean([not run.answered for run in runs])),
        "turns": float(np.mean([run.turns for run in runs])),
        "experts_called": float(np.mean([run.experts_called for run in runs])),
        "cost_usd": float(np.mean([cost_usd(run) for run in runs])),
        "latency_s": float(np.mean([latency_s(run) for run in runs])),
    }
