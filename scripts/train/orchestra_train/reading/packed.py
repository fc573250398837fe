"""Examples of card reading made beforehand, as compact arrays: a GPU never waits for words.

A file (`.npz`) holds trees one behind another, by rising level of the curriculum, under the fingerprint of what they
were made with: another vocabulary, contract or set of columns is refused.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..contract.load import Contract
from ..contract.phrase import AXES
from ..packing import Tree
from .hints import GRADES, statement_targets
from .lists import unasked
from .midway import hint_places
from .reader import Reader
from .rosters import Reading
from .train import Example, targets_of
from .wishes import Wish

# Of a tree without evidence, whether it is settled; of one that is no wish, what it cares for.
UNTOLD = (np.nan, np.nan)
UNWISHED = (-1,) * len(AXES)
# Width of the rows that trees are put into; what is longer is left out.
ROW_TOKENS = 1024


@dataclass(frozen=True)
class Packed:
    """tokens: of all trees; pieces: lengths of each prefix and, behind it, of its branches; branches: of each tree;
    targets: weights of the grades of each branch; right: 1 or 0 where a branch is a recorded answer, else NaN;
    levels: of each tree, from 0 to 1; problem_ends: of each tree, where the problem ends within it; settled: of each
    tree, whether documents answer and a program gave a result, NaN without evidence; wish_grades: of each tree, how
    much the wish cares for each axis, -1 where it is no wish.

    Hints: how many names each tree has, their places within it, whether each is meant; how many statements, their
    places, bearings and weights of grades, all zero where none is told.
    """

    tokens: np.ndarray
    pieces: np.ndarray
    branches: np.ndarray
    targets: np.ndarray
    right: np.ndarray
    levels: np.ndarray
    problem_ends: np.ndarray
    settled: np.ndarray
    wish_grades: np.ndarray
    names: np.ndarray
    name_places: np.ndarray
    meant: np.ndarray
    statements: np.ndarray
    statement_places: np.ndarray
    bearings: np.ndarray
    statement_grades: np.ndarray

    def __len__(self) -> int:
        return len(self.branches)

    @cached_property
    def _first_pieces(self) -> np.ndarray:
        return _starts(self.branches.astype(np.int64) + 1)

    @cached_property
    def _piece_starts(self) -> np.ndarray:
        return _starts(self.pieces)

    @cached_property
    def tree_starts(self) -> np.ndarray:
        """Where each tree's tokens begin, and the end of the last. [trees + 1]"""
        return self._piece_starts[self._first_pieces]

    @cached_property
    def branch_starts(self) -> np.ndarray:
        """Where each tree's branches begin among all. [trees + 1]"""
        return _starts(self.branches)

    @cached_property
    def name_starts(self) -> np.ndarray:
        return _starts(self.names)

    @cached_property
    def statement_starts(self) -> np.ndarray:
        return _starts(self.statements)

    @cached_property
    def prefix_ends(self) -> np.ndarray:
        """The last token of each prefix among all tokens. [trees]"""
        return self._piece_starts[self._first_pieces[:-1] + 1] - 1

    @cached_property
    def branch_ends(self) -> np.ndarray:
        """The last token of each branch among all tokens. [branches]"""
        return np.delete(self._piece_starts[1:] - 1, self._first_pieces[:-1])

    @cached_property
    def owners(self) -> np.ndarray:
        """Of each token the branch within its tree, -1 in a prefix. [tokens]"""
        within = np.arange(len(self.pieces)) - np.repeat(self._first_pieces[:-1], self.branches.astype(np.int64) + 1)
        return np.repeat((within - 1).astype(np.int16), self.pieces)

    @cached_property
    def positions(self) -> np.ndarray:
        """Of each token in its own text: a branch goes on where the prefix ends. [tokens]"""
        starts = np.repeat(self._piece_starts[:-1].astype(np.int32), self.pieces)
        prefixes = np.repeat(self.pieces[self._first_pieces[:-1]], self.branches.astype(np.int64) + 1)
        prefixes[self._first_pieces[:-1]] = 0
        return np.arange(len(self.tokens), dtype=np.int32) - starts + np.repeat(prefixes, self.pieces)


def _starts(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


KINDS = {
    "tokens": np.int32, "pieces": np.int32, "branches": np.uint8, "targets": np.float32, "right": np.float32,
    "levels": np.float32, "problem_ends": np.int32, "settled": np.float32, "wish_grades": np.int8, "names": np.uint16,
    "name_places": np.int32, "meant": np.float32, "statements": np.uint16, "statement_places": np.int32,
    "bearings": np.int64, "statement_grades": np.float32,
}  # fmt: skip
TAILS = {"targets": (GRADES,), "statement_grades": (GRADES,), "settled": (2,), "wish_grades": (len(AXES),)}


def pack_examples(
    reader: Reader, examples: Iterable[tuple[float, Example]], most_tokens: int, listed: bool = False
) -> Packed:
    """Pairs of a level and an example; what is longer than a row is left out. What is `listed` has hints alone."""
    columns: dict[str, list[np.ndarray]] = {name: [np.zeros((0, *TAILS.get(name, ())))] for name in KINDS}
    for level, example in examples:
        tree = unasked(reader, example) if listed and isinstance(example, Wish) else reader.tree(example)
        if len(tree) > most_tokens:
            continue
        answers = _no_answers(len(tree.branches)) if listed else _answers(example)
        for name, values in {"levels": [level], **_texts(tree), **answers, **_hints(reader, tree, example)}.items():
            columns[name].append(np.asarray(values, KINDS[name]).reshape(-1, *TAILS.get(name, ())))
    return Packed(**{name: np.concatenate(parts).astype(KINDS[name]) for name, parts in columns.items()})


def _texts(tree: Tree) -> dict[str, Any]:
    return {
        "tokens": [*tree.prefix, *(token for branch in tree.branches for token in branch)],
        "pieces": [len(tree.prefix), *map(len, tree.branches)],
        "branches": [len(tree.branches)],
    }


def _answers(example: Example) -> dict[str, Any]:
    if isinstance(example, Reading) and example.recorded:
        return _no_answers(len(example.tools)) | {"right": [tool.value for tool in example.tools]}
    targets = targets_of(example).numpy()
    return _no_answers(len(targets)) | {"targets": targets}


def _no_answers(count: int) -> dict[str, Any]:
    return {"targets": np.zeros((count, GRADES)), "right": [np.nan] * count}


def _hints(reader: Reader, tree: Tree, example: Example) -> dict[str, Any]:
    if isinstance(example, Wish):
        wished = {"wish_grades": example.grades}
        return {"problem_ends": [0], "settled": UNTOLD, "names": [0], "statements": [0]} | wished
    edges = np.cumsum([len(tree.prefix), *map(len, tree.branches)]).tolist()
    places = hint_places(reader, example, [range(*edge) for edge in pairwise(edges)])
    bearings, grades, graded = statement_targets(places.hints) if places.hints else ([], np.zeros((0, GRADES)), None)
    return {
        "problem_ends": [places.problem_end],
        "settled": UNTOLD if example.settled is None else example.settled,
        "wish_grades": UNWISHED,
        "names": [len(places.names)],
        "name_places": places.names,
        "meant": places.meant,
        "statements": [len(places.statements)],
        "statement_places": places.statements,
        "bearings": bearings,
        "statement_grades": grades if graded is None else grades * graded[:, None],
    }


def joined(parts: Sequence[Packed]) -> Packed:
    return Packed(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(Packed)))


def fingerprint(metadata: dict[str, Any], contract: Contract) -> str:
    # A file of other columns was written by another version.
    digest = hashlib.sha256(f"{contract['hash']} {' '.join(KINDS)}".encode())
    for name in ("tokenizer.ggml.tokens", "tokenizer.ggml.merges"):
        digest.update("\n".join(metadata[name]).encode())
    return digest.hexdigest()


def write_packed(packed: Packed, path: Path, made_with: str) -> None:
    arrays = {one.name: getattr(packed, one.name) for one in fields(Packed)}
    np.savez_compressed(path, made_with=np.array(made_with), **arrays)


def read_packed(path: Path, made_with: str) -> Packed:
    """@raises SystemExit where it is not there, or was made with something else."""
    if not path.exists():
        raise SystemExit(f"--packed: there is no {path}: `pack` writes it")
    with np.load(path, allow_pickle=False) as file:
        if str(file["made_with"]) != made_with:
            raise SystemExit(f"{path} was packed with another vocabulary, contract or version: pack again")
        return Packed(*(file[one.name] for one in fields(Packed)))
