"""The subcommands of function-call tasks: `toolscale` makes them, `toolscale-score` judges recorded runs."""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from .toolscale.checks import judge
from .toolscale.dataset import load_domains, load_tasks, read_lines, save_domain, save_tasks
from .toolscale.records import make_domain
from .toolscale.tasks import make_tasks
from .toolscale.words import DOMAINS


def add_tool_commands(commands: Any) -> None:
    make = commands.add_parser("toolscale", help="function-call tasks with executable tools, in ten domains")
    make.add_argument("--out", type=Path, required=True)
    make.add_argument("--tasks", type=int, default=100, help="a domain")
    make.add_argument("--seed", type=int, default=1)
    make.set_defaults(run=_make)

    judged = commands.add_parser("toolscale-score", help="execution, process and completeness of recorded runs")
    judged.add_argument("--data", type=Path, required=True, help="folder that `toolscale` wrote")
    judged.add_argument("--runs", type=Path, required=True, help="JSON lines of {task, calls, messages}")
    judged.set_defaults(run=_score)


def _make(arguments: argparse.Namespace) -> None:
    tasks = []
    for words in tqdm(DOMAINS, unit="domain"):
        domain = make_domain(words, arguments.seed)
        save_domain(arguments.out, domain)
        tasks += make_tasks(words, domain, arguments.tasks, arguments.seed)
    print(save_tasks(arguments.out, tasks), "tasks in", arguments.out)


def _score(arguments: argparse.Namespace) -> None:
    domains, tasks = load_domains(arguments.data), load_tasks(arguments.data)
    figures: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for run in read_lines(arguments.runs):
        task = tasks[run["task"]]
        verdict = judge(domains[task["domain"]], task, run["calls"], run["messages"])
        solved = verdict.reward(task["evaluation_criteria"]["reward_basis"])
        for group in (task["domain"], "all"):
            figures[group].append((solved, verdict.execution, verdict.process, verdict.completeness))
    names = ("solved", "execution", "process", "completeness")
    print(json.dumps({group: _means(names, rows) for group, rows in figures.items()}, indent=1))


def _means(names: tuple[str, ...], rows: list[tuple[float, ...]]) -> dict[str, float]:
    columns = zip(*rows, strict=True)
    means = {name: round(sum(column) / len(rows), 4) for name, column in zip(names, columns, strict=True)}
    return {"runs": len(rows), **means}
