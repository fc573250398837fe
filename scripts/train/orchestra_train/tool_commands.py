"""The subcommands of function-call tasks: `toolscale` makes them, `toolscale-score` judges recorded runs."""

import argparse
import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from .toolscale.checks import judge
from .toolscale.dataset import load_domains, load_tasks, read_lines, replace_text, save_domain, save_tasks
from .toolscale.domain_words import DOMAINS
from .toolscale.endpoint import BudgetSpent, Endpoint, EndpointFailed
from .toolscale.model_output import Malformed
from .toolscale.pipeline import Pipeline, PipelineShape
from .toolscale.records import make_domain
from .toolscale.tasks import make_tasks


def add_tool_commands(commands: Any) -> None:
    make = commands.add_parser("toolscale", help="function-call tasks with executable tools, in ten domains")
    make.add_argument("--out", type=Path, required=True)
    make.add_argument("--tasks", type=int, default=100, help="a domain")
    make.add_argument("--seed", type=int, default=1)
    make.set_defaults(run=_make)

    generate = commands.add_parser("toolscale-generate", help="the same with a model that invents domain and tasks")
    generate.add_argument("--out", type=Path, required=True)
    generate.add_argument("--domain", action="append", required=True, help="a field, in a word or two; may be repeated")
    generate.add_argument("--endpoint", required=True, help="OpenAI-compatible base URL, ends in /v1")
    generate.add_argument("--model", required=True)
    generate.add_argument("--key-variable", default="ORCHESTRA_TRAIN_API_KEY", help="variable that holds the key")
    generate.add_argument("--max-cost-usd", type=float, required=True, help="of all runs into this folder together")
    generate.add_argument("--price-in", type=float, required=True, help="USD per million tokens")
    generate.add_argument("--price-out", type=float, required=True)
    generate.add_argument("--intents", type=int, default=100)
    generate.add_argument("--subjects", type=int, default=20)
    generate.add_argument("--attempts", type=int, default=8, help="to solve a task before it is thrown away")
    generate.add_argument("--timeout", type=float, default=120.0, help="seconds a call")
    generate.set_defaults(run=_generate)

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


def _generate(arguments: argparse.Namespace) -> None:
    """What was paid for is kept in replies.jsonl: the same command again goes on from there."""
    endpoint = Endpoint(
        arguments.endpoint,
        arguments.model,
        arguments.out / "replies.jsonl",
        arguments.max_cost_usd,
        arguments.price_in,
        arguments.price_out,
        key=os.environ.get(arguments.key_variable, ""),
        timeout_s=arguments.timeout,
    )
    shape = PipelineShape(subjects=arguments.subjects, intents=arguments.intents, attempts=arguments.attempts)
    pipeline = Pipeline(endpoint, shape)
    tasks: list[dict[str, Any]] = []
    ending = "complete"
    try:
        for name in tqdm(arguments.domain, unit="domain"):
            _generate_domain(pipeline, name, arguments.out, tasks)
    except BudgetSpent:
        ending = "the money was not enough; the same command with more of it goes on here"
    save_tasks(arguments.out, tasks)
    report = {"ending": ending, "tasks": len(tasks), "spent_usd": endpoint.spent_nano / 1e9, **pipeline.counts}
    replace_text(arguments.out / "report.json", json.dumps(report, indent=1))
    print(json.dumps(report, indent=1))


def _generate_domain(pipeline: Pipeline, name: str, folder: Path, tasks: list[dict[str, Any]]) -> None:
    try:
        domain = pipeline.make_domain(name)
    except (Malformed, EndpointFailed):
        pipeline.counts["domains: given up"] += 1
        return
    save_domain(folder, domain)
    for task in tqdm(pipeline.make_tasks(domain), unit="task", desc=name):
        tasks.append(task)


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
