"""The subcommand `toolscale-train`: a policy learns to call functions, from golden ways to whole runs."""

import argparse
from pathlib import Path
from typing import Any

from .contract.load import load_contract
from .grpo import GrpoSettings
from .processes import is_first, leave_processes
from .reward import REWARDS
from .sft import SftSettings
from .tokenizer import TextTokenizer
from .toolscale.function_policy import FunctionPolicy, RunLimits
from .toolscale.function_stages import Row, learn
from .toolscale.task_pool import open_pools
from .train_commands import FILTERS, add_model_arguments, open_model


def add_function_commands(commands: Any) -> None:
    parser = commands.add_parser("toolscale-train", help="function calls, learnt from a folder that `toolscale` wrote")
    add_model_arguments(parser)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--domain", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--tools", type=int, help="most that are shown at a time; all where left out")
    parser.add_argument("--experts", action="store_true", help="steps may be handed to modelled experts at a price")
    parser.add_argument("--turns", type=int, default=12, help="most of a run")
    parser.add_argument("--turn-tokens", type=int, default=160, help="most that are written in a turn")
    parser.add_argument("--sft-steps", type=int, default=0, help="warm start on ways that work")
    parser.add_argument("--sft-learning-rate", type=float, default=1e-3)
    parser.add_argument("--steps", type=int, required=True, help="over whole runs")
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--episodes", type=int, default=8, help="tasks a step")
    parser.add_argument("--rollouts", type=int, default=8, help="runs a task")
    parser.add_argument("--reward", choices=REWARDS, default="gated_gdpo")
    parser.add_argument("--filter", choices=FILTERS, default="component")
    parser.add_argument("--seed", type=int, default=1)
    parser.set_defaults(run=_train, recompute=False, shard=False)


def _train(arguments: argparse.Namespace) -> None:
    source = open_model(arguments, ())
    limits = RunLimits(arguments.turns, arguments.turn_tokens)
    policy = FunctionPolicy(source.model, TextTokenizer(source.metadata), load_contract("slots-1"), limits)
    seen, unseen = open_pools(arguments.data, arguments.tools, arguments.domain, arguments.experts)
    sft = SftSettings(arguments.sft_steps, arguments.episodes, arguments.sft_learning_rate, seed=arguments.seed)
    grpo = GrpoSettings(
        arguments.steps,
        arguments.episodes,
        arguments.rollouts,
        arguments.learning_rate,
        arguments.reward,
        arguments.filter,
        seed=arguments.seed,
    )
    rows = learn(policy, seen, unseen, sft, grpo, arguments.out)
    if is_first():
        print(_table(rows))
    leave_processes()


def _table(rows: dict[str, Row]) -> str:
    """Share of unseen tasks solved after each stage."""
    groups = list(rows["start"])
    lines = [f"| solved | tasks | {' | '.join(rows)} |", f"|---|---|{'---|' * len(rows)}"]
    for group in groups:
        shares = " | ".join(f"{row[group]['solved']:.2f}" for row in rows.values())
        lines.append(f"| {group} | {rows['start'][group]['tasks']:.0f} | {shares} |")
    return "\n".join(lines)
