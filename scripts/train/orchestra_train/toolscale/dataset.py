"""A folder of domains and tasks: `domains/<name>.json` with policy, tools and database, `tasks.jsonl` a task a line."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .environment import Domain

TASKS = "tasks.jsonl"


def save_domain(folder: Path, domain: Domain) -> None:
    # The name may be anybody's words.
    path = folder / "domains" / f"{re.sub('[^a-z0-9]+', '-', domain.name.lower())}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    held = {"name": domain.name, "policy": domain.policy, "tools": list(domain.tools), "database": domain.database}
    replace_text(path, json.dumps(held, indent=1))


def load_domains(folder: Path) -> dict[str, Domain]:
    domains = {}
    for path in sorted((folder / "domains").glob("*.json")):
        held = json.loads(path.read_text())
        domains[held["name"]] = Domain(held["name"], held["policy"], tuple(held["tools"]), held["database"])
    return domains


def save_tasks(folder: Path, tasks: Iterable[Mapping[str, Any]]) -> int:
    """How many there were."""
    lines = [json.dumps(task) for task in tasks]
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(folder / TASKS, "".join(f"{line}\n" for line in lines))
    return len(lines)


def load_tasks(folder: Path) -> dict[str, dict[str, Any]]:
    return {task["id"]: task for task in read_lines(folder / TASKS)}


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def replace_text(path: Path, text: str) -> None:
    """All of it or what was there before, even when killed."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(text)
    os.replace(fresh, path)


def read_whole_lines(path: Path) -> list[dict[str, Any]]:
    """Of a file that is appended to; a kill may have cut the last line, which is taken away."""
    if not path.exists():
        return []
    lines = path.read_text().splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    if len(whole) < len(lines):
        replace_text(path, "".join(whole))
    return [json.loads(line) for line in whole]
