"""Examples of card reading, made on CPUs beforehand, for `gpu`."""

import argparse
import json
import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .card_commands import open_reader
from .reading.packed import ROW_TOKENS, Packed, fingerprint, joined, pack_examples, write_packed
from .reading.problems import problem_source
from .reading.rosters import ReadingShape, fresh_reading
from .reading.train import CardSettings, Example, fresh_problem
from .reading.wishes import fresh_wish

UNSEEN_SEED = 30_000
# Share of packed examples that are wishes.
WISHES = 0.2


def add_pack_command(commands: Any) -> None:
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


def _pack(arguments: argparse.Namespace) -> None:
    source, reader = open_reader(arguments, None)
    settings = CardSettings(
        arguments.examples,
        cards=arguments.cards,
        seed=arguments.seed,
        start=arguments.start,
        outcomes=arguments.outcomes,
    )

    def cards(numbers: range) -> Packed:
        return pack_examples(reader, card_examples(settings, numbers), ROW_TOKENS)

    def unseen(numbers: range) -> Packed:
        return pack_examples(reader, _unseen_examples(numbers), ROW_TOKENS)

    packs = {"train": (cards, arguments.examples), "unseen": (unseen, arguments.unseen)}
    made_with = fingerprint(source.metadata, reader.contract)
    arguments.out.mkdir(parents=True, exist_ok=True)
    figures = {}
    for name, (pack, count) in packs.items():
        packed = pack_in_processes(pack, count, arguments.processes)
        write_packed(packed, arguments.out / f"{name}.npz", made_with)
        figures[name] = {"trees": len(packed), "tokens": len(packed.tokens)}
    print(json.dumps(figures))


def card_examples(settings: CardSettings, numbers: range) -> Iterator[tuple[float, Example]]:
    """A function of seed and number alone, however many processes share the work; half are of the highest level."""
    for number in numbers:
        rng = np.random.default_rng([settings.seed, number])
        level = min(1.0, settings.start + (1 - settings.start) * 2 * number / settings.steps)
        yield level, fresh_wish(rng, unseen=False) if rng.random() < WISHES else fresh_problem(rng, settings, level)


def _unseen_examples(numbers: range) -> Iterator[tuple[float, Example]]:
    for number in numbers:
        rng = np.random.default_rng([UNSEEN_SEED, number])
        if rng.random() < WISHES:
            yield 1.0, fresh_wish(rng, unseen=True)
        else:
            yield 1.0, fresh_reading(rng, problem_source(True), 5, ReadingShape(), unseen=True)


def pack_in_processes(pack: Callable[[range], Packed], count: int, processes: int) -> Packed:
    """Each process packs a stretch of the numbers up to `count`."""
    edges = np.linspace(0, count, processes + 1).astype(int).tolist()
    stretches = [range(*pair) for pair in zip(edges, edges[1:], strict=False)]
    if processes == 1:
        return pack(stretches[0])
    # Forked, so that all share the one vocabulary.
    context = multiprocessing.get_context("fork")
    results = [context.Pipe(duplex=False) for _ in stretches]
    workers = [
        context.Process(target=_send_packed, args=(pack, stretch, sender), daemon=True)
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


def _send_packed(pack: Callable[[range], Packed], stretch: range, sender: Any) -> None:
    sender.send(pack(stretch))
