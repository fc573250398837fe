"""Examples of card reading and lists, made on CPUs beforehand, for `gpu`."""

import argparse
import json
import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .card_commands import open_reader
from .reading.lists import RECORDED, fresh_list
from .reading.packed import ROW_TOKENS, Packed, fingerprint, joined, pack_examples, write_packed
from .reading.problems import open_subjects, problem_source
from .reading.rosters import ReadingShape, fresh_reading
from .reading.train import LISTS_ALONE, WISHES_LISTED, CardSettings, Example, fresh_problem
from .reading.wishes import fresh_wish

UNSEEN_SEED = 30_000
# Beside seed and number, so that a list draws other things than the example of its number.
OF_LISTS = 1
# Shares of examples and of lists that are wishes, as in `cards`: one a problem, eight beside six lists.
WISHES = 0.5
LISTED_WISHES = WISHES_LISTED / (WISHES_LISTED + LISTS_ALONE)


def add_pack_command(commands: Any) -> None:
    pack = commands.add_parser("pack", help="make examples of card reading beforehand, for `gpu`")
    pack.add_argument("--base", type=Path, required=True, help="GGUF whose vocabulary they are for")
    pack.add_argument("--out", type=Path, required=True, help="folder for train.npz, lists.npz and unseen.npz")
    pack.add_argument("--examples", type=int, default=200_000, help="problems with their cards, and as many wishes")
    # To examples as in the recipe of `cards`: 300 steps of lists alone, 6,000 of a problem and a wish.
    pack.add_argument("--lists", type=int, default=70_000, help="lists of names and statements, and wishes among them")
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

    def lists(numbers: range) -> Packed:
        return pack_examples(reader, list_examples(settings, numbers), ROW_TOKENS, listed=True)

    def unseen(numbers: range) -> Packed:
        return pack_examples(reader, _unseen_examples(numbers), ROW_TOKENS)

    packs = {
        "train": (cards, arguments.examples),
        "lists": (lists, arguments.lists),
        "unseen": (unseen, arguments.unseen),
    }
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


def list_examples(settings: CardSettings, numbers: range) -> Iterator[tuple[float, Example]]:
    """All of the lowest level."""
    problems, subjects = problem_source(unseen=False), open_subjects(unseen=False)
    recorded = RECORDED if settings.outcomes else 0.0
    for number in numbers:
        rng = np.random.default_rng([settings.seed, number, OF_LISTS])
        wished = rng.random() < LISTED_WISHES
        yield 0.0, fresh_wish(rng, unseen=False) if wished else fresh_list(rng, problems, subjects, recorded)


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
