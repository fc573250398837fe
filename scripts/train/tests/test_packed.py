"""Packed examples teach what the examples themselves teach."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from orchestra_train.contract.evidence import no_evidence
from orchestra_train.contract.load import load_contract
from orchestra_train.gguf_file import GgufModel, tiny_model
from orchestra_train.model import add_adapter
from orchestra_train.pack_command import card_examples, pack_in_processes
from orchestra_train.reading.batches import batch_loss, batches_of, rows_of
from orchestra_train.reading.hints import Probes
from orchestra_train.reading.midway import read_midway
from orchestra_train.reading.outcomes import outcome_loss
from orchestra_train.reading.packed import Packed, fingerprint, pack_examples, read_packed, write_packed
from orchestra_train.reading.reader import Reader
from orchestra_train.reading.rosters import Reading, Tool
from orchestra_train.reading.train import CardSettings, Example, targets_of
from orchestra_train.reading.wishes import Wish, fresh_wish
from orchestra_train.tokenizer import TextTokenizer, tiny_tokenizer

BELIEFS = load_contract("beliefs-1")
METADATA = tiny_tokenizer(BELIEFS["grades"] * 50 + ["Good at sums. Problem: how many?"] * 20, 350)
CARDS = CardSettings(16, cards=2, start=1.0)
RECORDED = Reading(
    "How many?",
    "law",
    no_evidence(),
    tuple(Tool("answer", f"Card {n}: law 4{n}%; math 62%.", float(n % 2)) for n in range(3)),
    True,
)
WIDTH = 1500


def fresh_source() -> GgufModel:
    torch.manual_seed(0)
    source = tiny_model("llama", METADATA, seed=1, width=32, feed_forward=64)
    return source


def fresh_reader() -> Reader:
    source = fresh_source()
    add_adapter(source.model, rank=4, alpha=8)
    for part in source.model.projections().values():
        torch.nn.init.normal_(part.lora_b, std=0.05)
    return Reader(source.model, TextTokenizer(source.metadata), BELIEFS)


def examples() -> list[tuple[float, Example]]:
    return [*card_examples(CARDS, range(4)), (1.0, fresh_wish(np.random.default_rng(1), False)), (1.0, RECORDED)]


def gradient(reader: Reader) -> torch.Tensor:
    learnt = [one.grad.flatten() for one in reader.model.parameters() if one.grad is not None]
    reader.model.zero_grad()
    return torch.cat(learnt)


def test_packed_batches_have_the_loss_and_gradient_of_one_example_at_a_time() -> None:
    reader = fresh_reader()
    chances = torch.tensor(BELIEFS["chances"])
    probes = Probes(reader.model.config.width, reader.model.config.layers)
    losses = []
    for _, example in examples():
        [found] = reader.grades([reader.tree(example)])
        recorded = isinstance(example, Reading) and example.recorded
        told = outcome_loss(found, chances, example) if recorded else -(targets_of(example) * found).sum(-1).mean()
        hints = 0.0 if isinstance(example, Wish) else read_midway(reader, probes, example).hint_loss
        losses.append(told + hints / 2)
    expected = torch.stack(losses).mean()
    expected.backward()
    expected_gradient = gradient(reader)

    packed = pack_examples(reader, examples(), WIDTH)
    total = 0.0
    for batch in batches_of(packed, range(len(packed)), WIDTH, rows_at_once=2):
        found = batch_loss(reader, probes, batch)
        loss = found.answers + found.hints / 2
        loss.backward()
        total += loss.item()
    assert total == pytest.approx(expected.item(), abs=1e-5)
    assert torch.allclose(gradient(reader), expected_gradient, atol=1e-5)


def test_processes_pack_what_one_packs_and_a_file_gives_it_back(tmp_path: Path) -> None:
    reader = fresh_reader()

    def pack(numbers: range) -> Packed:
        return pack_examples(reader, card_examples(CARDS, numbers), WIDTH)

    alone, together = (pack_in_processes(pack, CARDS.steps, processes) for processes in (1, 3))
    write_packed(alone, tmp_path / "train.npz", "made with this")
    for other in (together, read_packed(tmp_path / "train.npz", "made with this")):
        for name, value in vars(alone).items():
            if isinstance(value, np.ndarray):
                assert np.array_equal(getattr(other, name), value, equal_nan=True), name


def test_a_pack_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    reader = fresh_reader()
    packed = pack_examples(reader, examples()[-1:], WIDTH)
    write_packed(packed, tmp_path / "train.npz", fingerprint(METADATA, BELIEFS))
    other = tiny_tokenizer(["another corpus"] * 20, 300)
    with pytest.raises(ValueError, match="another vocabulary"):
        read_packed(tmp_path / "train.npz", fingerprint(other, BELIEFS))


def test_what_is_longer_than_a_row_is_left_out() -> None:
    reader = fresh_reader()
    long = replace(RECORDED, problem="Good at sums? " * 900)
    assert len(pack_examples(reader, [(0.0, long), (1.0, RECORDED)], WIDTH // 2)) == 1


def test_rows_hold_what_fits_and_long_trees_stand_alone() -> None:
    assert list(rows_of([4, 4, 9, 3], 8)) == [[0, 1], [2], [3]]
