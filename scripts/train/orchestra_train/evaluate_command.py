"""The subcommand `evaluate`: a policy through the served gateway, beside rows that need none."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKS = ("world", "llmrouter", "zeroeval", "mmlu_pro")
SCHEDULES = ("list", "provider_b", "permuted", "strongest_cheapest")


def add_evaluate_command(commands: Any) -> None:
    parser = commands.add_parser("evaluate", help="a policy through the served gateway, beside simple rows")
    parser.add_argument("--policy", required=True, help="a GGUF, or `estimate`")
    parser.add_argument("--adapter", type=Path, help="a LoRA adapter on the GGUF")
    parser.add_argument(
        "--contract", choices=("beliefs-1", "slots-1", "slots-2"), help="where the weights do not say it"
    )
    parser.add_argument("--context", type=int, default=4096, help="tokens of the policy's window")
    parser.add_argument("--name", help="of the row; the policy's file when left out")
    parser.add_argument("--pack", choices=PACKS, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--tasks", type=int, help="so many, drawn with one seed; left out: the whole split, 200 of the world"
    )
    recorded = parser.add_argument_group("recorded packs")
    recorded.add_argument("--split", choices=("validation", "test"), default="validation")
    recorded.add_argument(
        "--costs", type=float, nargs="+", default=[0.02, 0.1, 0.5], help="cost weights beside quality 1"
    )
    recorded.add_argument("--schedule", choices=SCHEDULES, nargs="+", default=["list"], help="of prices")
    recorded.add_argument(
        "--roster", choices=("all", "seen", "unseen"), default="all", help="by what training may call"
    )
    recorded.add_argument("--skills", action="store_true", help="calibrated skills beside the words of the cards")
    world = parser.add_argument_group("world")
    world.add_argument("--seed", type=int, default=0)
    world.add_argument("--probes", type=int, default=100, help="tasks for sweeps of weights, profiles, swapped prices")
    world.add_argument("--wishes", choices=("weights", "words"), default="weights")
    parser.set_defaults(run=_evaluate)


def _evaluate(arguments: argparse.Namespace) -> None:
    from .evaluation.gateway import PolicyFiles
    from .evaluation.report import write_report, write_summary

    if arguments.policy == "estimate":
        policy = PolicyFiles()
    else:
        policy = PolicyFiles(Path(arguments.policy), arguments.adapter, arguments.contract, arguments.context)
    name = arguments.name or (arguments.adapter or Path(arguments.policy)).stem
    reports: dict[str, dict[str, Any]] = {}
    for file, report in _reports(arguments, policy, name):
        reports[file] = report
        print(write_report(arguments.out, file, report))
    print("\n".join(write_summary(arguments.out, reports)))


def _reports(arguments: argparse.Namespace, policy: Any, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each with the name of its file."""
    for pack in arguments.pack:
        if pack == "world":
            yield f"world-{name}-{arguments.wishes}-{arguments.seed}", _world(arguments, policy, name)
            continue
        for schedule in arguments.schedule:
            file = f"{pack}-{name}-{arguments.split}-{schedule}-{arguments.roster}"
            yield file, _recorded(arguments, pack, schedule, policy, name)


def _world(arguments: argparse.Namespace, policy: Any, name: str) -> dict[str, Any]:
    from .evaluation.world_report import evaluate_world

    count = arguments.tasks or 200
    return evaluate_world(count, policy, name, arguments.seed, arguments.probes, arguments.wishes)


def _recorded(arguments: argparse.Namespace, pack: str, schedule: str, policy: Any, name: str) -> dict[str, Any]:
    from .evaluation.recorded import read_table
    from .evaluation.replay_report import evaluate_pack
    from .evaluation.report import log_look

    table = read_table(pack, schedule, arguments.roster)
    rows = _sample(table.rows(arguments.split), arguments.tasks)
    if arguments.split == "test":
        log_look(arguments.out, pack, name, len(rows))
    report = evaluate_pack(table, rows, arguments.split, policy, arguments.costs, name, arguments.skills)
    return {**report, "schedule": schedule, "roster": arguments.roster}


def _sample(rows: Any, count: int | None) -> Any:
    """In the order of the pack. Packs are sorted by domain, so the first ones would not do."""
    import numpy as np

    drawn = np.random.default_rng(0).permutation(rows)[:count]
    return np.sort(drawn)
