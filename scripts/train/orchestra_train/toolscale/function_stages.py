"""The whole way of a policy that calls functions, with the share of unseen tasks that it solves after each stage."""

import json
from collections import defaultdict
from pathlib import Path

from ..grpo import GrpoSettings
from ..processes import is_first
from ..sft import SftSettings
from .dataset import replace_text
from .function_policy import FunctionPolicy
from .function_training import imitate_ways, likeliest, means, play, reinforce_runs
from .task_pool import TaskPool
from .task_run import FinishedRun

Row = dict[str, dict[str, float]]
AT_ONCE = 8


def learn(
    policy: FunctionPolicy, seen: TaskPool, unseen: TaskPool, sft: SftSettings, grpo: GrpoSettings, folder: Path
) -> dict[str, Row]:
    """Rows `start`, `sft` and `grpo`, kept in `functions.json`; a resumed run does not measure them again."""
    report = folder / "functions.json"
    rows: dict[str, Row] = json.loads(report.read_text()) if report.exists() else {}

    def note(name: str) -> None:
        if name not in rows:
            rows[name] = evaluate(policy, unseen)
            if is_first():
                folder.mkdir(parents=True, exist_ok=True)
                replace_text(report, json.dumps(rows, indent=1))

    note("start")
    imitate_ways(policy, seen, sft, folder)
    note("sft")
    reinforce_runs(policy, seen, grpo, folder)
    note("grpo")
    return rows


def evaluate(policy: FunctionPolicy, pool: TaskPool) -> Row:
    """Each task once, every token the likeliest; means by level, by domain and of all."""
    cases = pool.cases()
    by_group: dict[str, list[FinishedRun]] = defaultdict(list)
    for start in range(0, len(cases), AT_ONCE):
        piece = cases[start : start + AT_ONCE]
        for case, [run] in zip(piece, play(policy, piece, 1, [0, start], likeliest), strict=True):
            for group in ("all", f"level {case.task['level']}", case.domain.name):
                by_group[group].append(run)
    return {group: {"tasks": len(runs), **means(runs)} for group, runs in sorted(by_group.items())}
