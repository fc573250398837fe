"""Card reading within minutes of one GPU.

`pack` makes the examples on CPUs beforehand; `gpu` trains on them, writes the adapter and reports, all inside the time.
"""

import argparse
import json
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .card_commands import add_card_arguments, open_reader
from .contract.load import load_contract
from .gguf_file import GgufModel, write_adapter
from .journal import checkpoint_fingerprint
from .reading.evaluate import evaluate_choices
from .reading.packed import ROW_TOKENS, Packed, fingerprint, joined, pack_examples, read_packed, write_packed
from .reading.problems import problem_source
from .reading.reader import Reader
from .reading.rosters import ReadingShape, fresh_reading
from .reading.timed import TimedSettings, examine, train_packed
from .reading.train import CardSettings, Example, fresh_problem
from .reading.wishes import fresh_wish

UNSEEN_SEED = 30_000
# Share of packed examples that are wishes.
WISHES = 0.2
# What follows the training is rehearsed before it; on the day it may take longer by this much.
SLACK, SLACK_S = 1.3, 5.0


def add_gpu_commands(commands: Any) -> None:
    pack = commands.add_parser("pack", help="make examples of card reading beforehand, for `gpu`")
    pack.add_argument("--base", type=Path, required=True, help="GGUF whose vocabulary they are for")
    pack.add_argument("--out", type=Path, required=True, help="folder for train.npz and unseen.npz")
    pack.add_argument("--examples", type=int, default=200_000)
    pack.add_argument("--unseen", type=int, default=1000, help="examples of unseen wordings and subjects, to report on")
    pack.add_argument("--cards", type=int, default=5, help="a problem")
    pack.add_argument("--outcomes", type=float, default=0.0, help="share of problems with recorded outcomes")
    pack.add_argument("--start", type=float, default=0.0, help="the lowest level of the curriculum, up to 1")
    pack.add_argument("--processes", type=int, default=1)
    pack.add_argument("--seed", type=int, default=1)
    pack.set_defaults(run=_pack, origin=None, rank=16, device="cpu", half=False, threads=1)

    train = commands.add_parser("gpu", help="train on packed examples, export and report within so many minutes")
    add_card_arguments(train)
    train.add_argument("--packed", type=Path, required=True, help="folder that `pack` wrote")
    train.add_argument("--minutes", type=float, default=10.0, help="for everything, from start to report")
    train.add_argument("--steps", type=int, help="instead of as many as the time allows")
    train.add_argument("--examples", type=int, default=256, help="a step")
    train.add_argument("--rows-at-once", type=int, default=32, help="rows of 1024 tokens held in memory together")
    train.add_argument("--start", type=float, default=0.0, help="level of the curriculum to begin with, up to 1")
    train.add_argument("--learning-rate", type=float, default=5e-4)
    train.add_argument("--episodes", type=int, default=100, help="rosters to choose from, for the report")
    train.add_argument("--seed", type=int, default=1)
    train.set_defaults(run=_gpu)


def _pack(arguments: argparse.Namespace) -> None:
    source, reader = open_reader(arguments, None)
    settings = CardSettings(
        arguments.examples,
        cards=arguments.cards,
        seed=arguments.seed,
        start=arguments.start,
        outcomes=arguments.outcomes,
    )
    arguments.out.mkdir(parents=True, exist_ok=True)
    made_with = fingerprint(source.metadata, reader.contract)
    packed = pack_in_processes(reader, settings, ROW_TOKENS, arguments.processes)
    write_packed(packed, arguments.out / "train.npz", made_with)
    unseen = pack_examples(reader, _unseen(arguments.unseen), ROW_TOKENS)
    write_packed(unseen, arguments.out / "unseen.npz", made_with)
    print(json.dumps({"examples": len(packed), "tokens": len(packed.tokens), "unseen": len(unseen)}))


def _train_examples(settings: CardSettings, numbers: range) -> Iterator[tuple[float, Example]]:
    """A function of seed and number alone, however many processes share the work; half are of the highest level."""
    for number in numbers:
        rng = np.random.default_rng([settings.seed, number])
        level = min(1.0, settings.start + (1 - settings.start) * 2 * number / settings.steps)
        yield level, fresh_wish(rng, unseen=False) if rng.random() < WISHES else fresh_problem(rng, settings, level)


def _unseen(count: int) -> Iterator[tuple[float, Example]]:
    for number in range(count):
        rng = np.random.default_rng([UNSEEN_SEED, number])
        if rng.random() < WISHES:
            yield 1.0, fresh_wish(rng, unseen=True)
        else:
            yield 1.0, fresh_reading(rng, problem_source(True), 5, ReadingShape(), unseen=True)


def pack_in_processes(reader: Reader, settings: CardSettings, most_tokens: int, processes: int) -> Packed:
    """`settings.steps` examples; each process makes a stretch of them."""
    edges = np.linspace(0, settings.steps, processes + 1).astype(int).tolist()
    stretches = [range(*pair) for pair in zip(edges, edges[1:], strict=False)]
    if processes == 1:
        return pack_examples(reader, _train_examples(settings, stretches[0]), most_tokens)
    # Forked, so that all share the one vocabulary.
    context = multiprocessing.get_context("fork")
    results = [context.Pipe(duplex=False) for _ in stretches]
    workers = [
        context.Process(target=_send_packed, args=(reader, settings, stretch, most_tokens, sender), daemon=True)
        for stretch, (_, sender) in zip(stretches, results, strict=True)
    ]
    for worker in workers:
        worker.start()
    for _, sender in results:
        # Only the worker holds it then, so that its death ends the wait.
        sender.close()
    parts = [receiver.recv() for receiver, _ in results]
    for worker in workers:
        worker.join()
    return joined(parts)


def _send_packed(reader: Reader, settings: CardSettings, stretch: range, most_tokens: int, sender: Any) -> None:
    sender.send(pack_examples(reader, _train_examples(settings, stretch), most_tokens))


def _gpu(arguments: argparse.Namespace) -> None:
    report = train_in_time(arguments, time.monotonic())
    print(json.dumps(report, indent=1))


def train_in_time(arguments: argparse.Namespace, started: float) -> dict[str, Any]:
    """Writes checkpoints, metrics, a plot, `adapter.gguf` and `report.json`; the time runs since `started`."""
    source, reader = open_reader(arguments, arguments.origin)
    made_with = fingerprint(source.metadata, reader.contract)
    packed, unseen = (read_packed(arguments.packed / f"{name}.npz", made_with) for name in ("train", "unseen"))
    settings = TimedSettings(
        0.0,
        arguments.steps,
        arguments.examples,
        rows_at_once=arguments.rows_at_once,
        learning_rate=arguments.learning_rate,
        start=arguments.start,
        seed=arguments.seed,
        origin=checkpoint_fingerprint(arguments.origin),
    )
    # Rehearsed first: an export that fails does so now, and what it takes is known.
    begun = time.monotonic()
    rehearsal = arguments.out / "rehearsal.gguf"
    before = _finish(source, reader, unseen, settings, arguments, rehearsal)
    rehearsal.unlink()
    ending_s = SLACK * (time.monotonic() - begun) + SLACK_S
    ready_s = time.monotonic() - started
    settings = replace(settings, seconds=60 * arguments.minutes - ready_s - ending_s)
    journal = train_packed(reader, packed, settings, arguments.out)
    adapter = arguments.out / "adapter.gguf"
    table = {"before": before, "after": _finish(source, reader, unseen, settings, arguments, adapter)}
    journal.plot()
    lines = journal.read()
    trained = {
        "steps": len(lines),
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


def _finish(
    source: GgufModel,
    reader: Reader,
    unseen: Packed,
    settings: TimedSettings,
    arguments: argparse.Namespace,
    adapter: Path,
) -> dict[str, float]:
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_adapter(source, adapter, reader.contract["hash"])
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
