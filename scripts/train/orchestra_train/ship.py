"""`ship`: makes an adapter the bundled policy: the file, its entry in downloads.json, the figures on its card."""

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

from .contract.load import REPOSITORY, contract_hash

_NAME = "card-reader"
_COLUMNS = {
    "accuracy": "accuracy",
    "expected": "luck aside",
    "usd_per_thousand": "USD / 1k",
    "share_of_strongest": "of strongest's",
    "adherence": "adherence",
    "calls": "calls",
    "regret": "regret",
}


def add_ship_command(commands: Any) -> None:
    ship = commands.add_parser("ship", help="make an adapter the policy that the gateway bundles")
    ship.add_argument("--adapter", type=Path, required=True, help="GGUF, as cards-report --adapter writes it")
    ship.add_argument("--report", type=Path, required=True, help="JSON that evaluate wrote of it")
    ship.add_argument("--row", default="trial", help="the adapter's row in the report's table")
    ship.add_argument("--models", type=Path, default=REPOSITORY / "models")
    ship.set_defaults(run=lambda given: ship_adapter(given.adapter, given.report, given.row, given.models))


def ship_adapter(adapter: Path, report: Path, row: str, models: Path) -> None:
    target = models / f"{_NAME}.lora.gguf"
    if adapter.resolve() != target.resolve():
        shutil.copyfile(adapter, target)
    catalog = models / "downloads.json"
    catalog.write_text(with_file(catalog.read_text("utf-8"), target.read_bytes()), "utf-8")
    found = shipped_report(json.loads(report.read_text("utf-8")), row)
    (models / f"{_NAME}.report.json").write_text(_as_formatted(found), "utf-8")
    card = models / f"{_NAME}.md"
    card.write_text(with_figures(card.read_text("utf-8"), found), "utf-8")


def with_file(catalog: str, weights: bytes) -> str:
    """Only our entry's three facts change: the file is kept by hand otherwise."""
    start = catalog.index(f'"id": "{_NAME}"')
    head, entry = catalog[:start], catalog[start:]
    facts = {
        "sizeBytes": str(len(weights)),
        "sha256": f'"{hashlib.sha256(weights).hexdigest()}"',
        "contractHash": f'"{contract_hash()}"',
    }
    for name, value in facts.items():
        entry = re.sub(rf'"{name}": [^,\n]+', f'"{name}": {value}', entry, count=1)
    return head + entry


def shipped_report(report: dict[str, Any], row: str) -> dict[str, Any]:
    rows = {_NAME if name == row else name: figures for name, figures in report["rows"].items()}
    # A gate without a value was not reached, or could not be measured: it stays, and is not met.
    return {**{key: report[key] for key in ("pack", "split", "tasks", "gates")}, "table": rows}


def with_figures(card: str, report: dict[str, Any]) -> str:
    measured = f"{report['pack']}, {report['split']}, {report['tasks']} tasks, through the gateway."
    rows = [[name, *(figures.get(key) for key in _COLUMNS)] for name, figures in report["table"].items()]
    gates = [[gate["name"], gate["value"], gate["bar"], "ok" if gate["ok"] else "not met"] for gate in report["gates"]]
    tables = [_table(["row", *_COLUMNS.values()], rows), _table(["gate", "value", "bar", ""], gates)]
    figures = "\n\n".join([measured, *tables])
    return re.sub(
        r"(?s)(<!-- figures -->\n).*(\n<!-- end of figures -->)",
        lambda found: f"{found[1]}{figures}{found[2]}",
        card,
    )


def _as_formatted(report: dict[str, Any]) -> str:
    """As the project's formatter writes JSON: lists of numbers on one line."""
    text = json.dumps(report, indent=2, ensure_ascii=False)
    return re.sub(r"\[([-\d.e,\s]+)\]", lambda found: f"[{' '.join(found[1].split())}]", text) + "\n"


def _table(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *([("–" if cell is None else str(cell)) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
