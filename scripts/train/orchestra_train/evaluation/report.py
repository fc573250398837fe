"""What an evaluation leaves behind: rows as JSON, a table for people, and the log of looks at test."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

COLUMNS = {
    "accuracy": "accuracy",
    "expected": "luck aside",
    "minus_strongest": "− strongest, points (95 %)",
    "usd_per_thousand": "USD / 1k",
    "share_of_strongest": "of strongest's",
    "latency_s": "latency, s",
    "adherence": "adherence",
    "calls": "calls",
    "valid": "valid",
    "privacy_broken": "privacy broken",
    "over_budget": "over budget",
    "regret": "regret",
}


def log_look(folder: Path, pack: str, policy: str, tasks: int) -> None:
    """Every look at test is written down and said, since each makes the next figure a little more optimistic."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "looks-at-test.log"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with log.open("a") as lines:
        lines.write(f"{now} {pack} {policy} {tasks} tasks\n")
    looks = sum(line.split()[1] == pack for line in log.read_text().splitlines())
    print(f"look {looks} at the test split of {pack}, logged in {log}")


def write_report(folder: Path, name: str, report: dict[str, Any]) -> str:
    """Writes NAME.json and NAME.md; returns the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    text = markdown(report)
    (folder / f"{name}.md").write_text(text)
    return text


def write_summary(folder: Path, reports: dict[str, dict[str, Any]]) -> list[str]:
    """Writes `report.json`: the gates of all reports, and their rows as one table; returns a line a gate.

    reports: by the name of their file.
    """
    gates = [
        {**gate, "name": f"{name}: {gate['name']}"} for name, report in reports.items() for gate in report["gates"]
    ]
    table = [
        {"report": name, "row": label, **row}
        for name, report in reports.items()
        for label, row in report["rows"].items()
    ]
    summary = {"gates": gates, "table": table}
    (folder / "report.json").write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    return [f"{'ok ' if gate['ok'] else 'NOT'} {gate['name']}: {gate['value']} ({gate['bar']})" for gate in gates]


def markdown(report: dict[str, Any]) -> str:
    rows = report["rows"]
    shown = [column for column in COLUMNS if any(row.get(column) is not None for row in rows.values())]
    header = "| row | " + " | ".join(COLUMNS[column] for column in shown) + " |"
    told = [report[key] for key in ("split", "schedule", "roster") if key in report]
    lines = [f"**{report['pack']}**, {', '.join(told)}, {report['tasks']} tasks", "", header]
    lines.append("|" + "---|" * (len(shown) + 1))
    for name, row in rows.items():
        lines.append(f"| {name} | " + " | ".join(_cell(row.get(column)) for column in shown) + " |")
    figures = report.get("figures", {})
    lines += ["", *(f"- {name}: {_cell(value)}" for name, value in figures.items())]
    lines += ["", "| gate | value | bar | |", "|---|---|---|---|"] if report.get("gates") else []
    for gate in report.get("gates", []):
        lines.append(
            f"| {gate['name']} | {_cell(gate['value'])} | {gate['bar']} | {'ok' if gate['ok'] else 'not met'} |"
        )
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list):
        middle, low, high = value
        return f"{middle:+.1f} [{low:+.1f}, {high:+.1f}]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
