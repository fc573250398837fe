"""Card reading within minutes of one GPU: training on what `pack` made, adapter and report, all inside the time."""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from .card_commands import add_card_arguments, open_reader
from .contract.load import load_contract
from .gguf_file import GgufModel, write_adapter
from .reading.course import TimedSettings
from .reading.evaluate import evaluate_choices
from .reading.packed import Packed, fingerprint, read_packed
from .reading.reader import Reader
from .reading.timed import examine, refuse_other_course, train_packed

# What follows the training is rehearsed before it; on the day it may take longer by this much.
SLACK, SLACK_S = 1.3, 5.0


def add_gpu_command(commands: Any) -> None:
    train = commands.add_parser("gpu", help="train on packed examples, export and report within so many minutes")
    add_card_arguments(train)
    train.add_argument("--packed", type=Path, required=True, help="folder that `pack` wrote")
    train.add_argument("--minutes", type=float, default=10.0, help="for everything, from start to report")
    train.add_argument("--steps", type=int, help="instead of as many as the time allows")
    train.add_argument("--examples", type=int, default=256, help="a step")
    train.add_argument("--rows-at-once", type=int, default=32, help="rows of 1024 tokens held in memory together")
    train.add_argument(
        "--lists-first", type=float, default=0.1, help="share of the time or steps on lists alone; none with --from"
    )
    train.add_argument("--start", type=float, default=0.0, help="level of the curriculum to begin with, up to 1")
    train.add_argument("--learning-rate", type=float, default=5e-4)
    train.add_argument("--episodes", type=int, default=100, help="rosters to choose from, for the report")
    train.add_argument("--seed", type=int, default=1)
    train.set_defaults(run=_gpu)


def _gpu(arguments: argparse.Namespace) -> None:
    report = train_in_time(arguments, time.monotonic())
    print(json.dumps(report, indent=1))


def train_in_time(arguments: argparse.Namespace, started: float) -> dict[str, Any]:
    """Writes checkpoints, metrics, a plot, `adapter.gguf` and `report.json`; the time runs since `started`."""
    settings = _settings(arguments)
    source, reader = open_reader(arguments, arguments.origin)
    refuse_other_course(settings, arguments.out)
    made_with = fingerprint(source.metadata, reader.contract)
    names = ("train", "lists", "unseen")
    cards, lists, unseen = (read_packed(arguments.packed / f"{name}.npz", made_with) for name in names)
    if settings.lists_first and not len(lists):
        raise SystemExit(f"{arguments.packed} has no lists: pack some, or --lists-first 0")
    # Rehearsed first: an export that fails does so now, and what it takes is known.
    begun = time.monotonic()
    rehearsal = arguments.out / "rehearsal.gguf"
    before = _finish(source, reader, unseen, settings, arguments, rehearsal)
    rehearsal.unlink()
    ending_s = SLACK * (time.monotonic() - begun) + SLACK_S
    ready_s = time.monotonic() - started
    settings = replace(settings, seconds=60 * arguments.minutes - ready_s - ending_s)
    journal = train_packed(reader, cards, lists, settings, arguments.out)
    adapter = arguments.out / "adapter.gguf"
    table = {"before": before, "after": _finish(source, reader, unseen, settings, arguments, adapter)}
    journal.plot()
    lines = journal.read()
    trained = {
        "steps": len(lines),
        "list_steps": sum("list_loss" in line for line in lines),
        "examples": arguments.examples * len(lines),
        "tokens": sum(line["tokens"] for line in lines),
        "seconds": lines[-1]["seconds"] if lines else 0.0,
        "ready_s": round(ready_s, 1),
        "all_s": round(time.monotonic() - started, 1),
        "device": str(reader.model.device),
    }
    report = {"gates": _gates(table, trained, arguments), "table": table, "trained": trained}
    (arguments.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    return report


def _settings(arguments: argparse.Namespace) -> TimedSettings:
    """Without the seconds, which are not known yet."""
    if not 0 <= arguments.lists_first < 1:
        raise SystemExit("--lists-first: a share, from 0 to less than 1")
    return TimedSettings(
        0.0,
        arguments.steps,
        arguments.examples,
        rows_at_once=arguments.rows_at_once,
        learning_rate=arguments.learning_rate,
        # Who goes on from a checkpoint has learnt from lists already.
        lists_first=0.0 if arguments.origin else arguments.lists_first,
        start=arguments.start,
        seed=arguments.seed,
        origin=arguments.origin,
    )


def _finish(
    source: GgufModel,
    reader: Reader,
    unseen: Packed,
    settings: TimedSettings,
    arguments: argparse.Namespace,
    adapter: Path,
) -> dict[str, float]:
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_adapter(source, adapter, reader.contract)
    figures = examine(reader, unseen, settings)
    if arguments.episodes:
        figures |= evaluate_choices(reader, load_contract("slots-2"), arguments.episodes)
    return figures


def _gates(
    table: dict[str, dict[str, float]], trained: dict[str, Any], arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    gates = [
        ("unseen loss to the start's", table["after"]["loss"] / table["before"]["loss"], 1.0),
        ("seconds in all", trained["all_s"], 60 * arguments.minutes),
    ]
    return [{"name": name, "value": round(value, 4), "bar": bar, "ok": value < bar} for name, value, bar in gates]
