"""Packed examples and lists teach what the examples and lists themselves teach."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from orchestra_train.contract.evidence import no_evidence
from orchestra_train.contract.load import load_contract
from orchestra_train.gguf_file import GgufModel, tiny_model
from orchestra_train.model import add_adapter
from orchestra_train.pack_command import card_examples, list_examples, pack_in_processes
from orchestra_train.reading.batches import batch_loss, batches_of, rows_of
from orchestra_train.reading.hints import Probes
from orchestra_train.reading.lists import list_loss, wish_list_loss
from orchestra_train.reading.midway import read_midway, read_wishes
from orchestra_train.reading.outcomes import outcome_loss
from orchestra_train.reading.packed import Packed, fingerprint, pack_examples, read_packed, write_packed
from orchestra_train.reading.packed_lists import asked_of, list_batch_loss
from orchestra_train.reading.reader import Reader
from orchestra_train.reading.rosters import Reading, Tool
from orchestra_train.reading.train import WISHING, CardSettings, Example, targets_of
from orchestra_train.reading.wishes import Wish
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


def fresh_probes(reader: Reader) -> Probes:
    return Probes(reader.model.config.width, reader.model.config.layers)


def examples() -> list[tuple[float, Example]]:
    return [*card_examples(CARDS, range(CARDS.steps)), (1.0, RECORDED)]


def gradient(reader: Reader, probes: Probes) -> torch.Tensor:
    """Of all that learns, 0 where nothing came; begun anew."""
    learnt = [*filter(lambda one: one.requires_grad, reader.model.parameters()), *probes.parameters()]
    found = [torch.zeros_like(one) if one.grad is None else one.grad for one in learnt]
    reader.model.zero_grad()
    probes.zero_grad()
    return torch.cat([one.flatten() for one in found])


def loss_alone(reader: Reader, probes: Probes, example: Example) -> torch.Tensor:
    [found] = reader.grades([reader.tree(example)])
    if isinstance(example, Wish):
        told = -(targets_of(example) * found).sum(-1).mean()
        return WISHING * told + read_wishes(reader, probes, [example]).hint_loss / 2
    if example.recorded:
        told = outcome_loss(found, torch.tensor(BELIEFS["chances"]), example)
    else:
        told = -(targets_of(example) * found).sum(-1).mean()
    return told + read_midway(reader, probes, example).hint_loss / 2


def test_packed_batches_have_the_loss_and_gradient_of_one_example_at_a_time() -> None:
    reader = fresh_reader()
    probes = fresh_probes(reader)
    expected = torch.stack([loss_alone(reader, probes, example) for _, example in examples()]).mean()
    expected.backward()
    expected_gradient = gradient(reader, probes)

    packed = pack_examples(reader, examples(), WIDTH)
    total, told = 0.0, torch.zeros(4)
    for batch in batches_of(packed, range(len(packed)), WIDTH, rows_at_once=2):
        found = batch_loss(reader, probes, batch)
        loss = found.answers + found.hints / 2
        loss.backward()
        total += loss.item()
        told += torch.stack([found.right, found.graded, found.wished, found.wish_graded])
    assert total == pytest.approx(expected.item(), abs=1e-5)
    assert torch.allclose(gradient(reader, probes), expected_gradient, atol=1e-6)
    known = [example for _, example in examples() if example is not RECORDED]
    wishes = [one for one in known if isinstance(one, Wish)]
    cards = [one for one in known if isinstance(one, Reading)]
    expected_told = [*told_right(reader, cards), *told_right(reader, wishes)]
    assert told.tolist() == expected_told and all(expected_told)


def told_right(reader: Reader, known: list[Reading] | list[Wish]) -> tuple[int, int]:
    found = torch.cat([reader.grades([reader.tree(one)])[0] for one in known]).argmax(-1)
    right = found == torch.cat([targets_of(one) for one in known]).argmax(-1)
    return int(right.sum()), len(right)


def test_packed_lists_have_the_loss_and_gradient_of_lists_in_one_row() -> None:
    reader = fresh_reader()
    probes = fresh_probes(reader)
    several = [*(example for _, example in list_examples(CARDS, range(12))), RECORDED]
    # The likeliest grade is then that which a statement without a grade would seem to give.
    probes.grade.bias.data[0] += 5
    lists = [one for one in several if isinstance(one, Reading)]
    wishes = [one for one in several if isinstance(one, Wish)]
    loss, figures = list_loss(reader, probes, lists)
    wish_loss, wish_figures = wish_list_loss(reader, probes, wishes)
    expected = loss + wish_loss
    expected.backward()
    expected_gradient = gradient(reader, probes)

    packed = pack_examples(reader, [(0.0, one) for one in several], WIDTH, listed=True)
    asked = asked_of(packed, range(len(packed)))
    total, right = 0.0, torch.zeros(4)
    batches = list(batches_of(packed, range(len(packed)), WIDTH, rows_at_once=1))
    assert len(batches) > 1
    for block in reader.model.blk[probes.matched :]:
        block.register_forward_pre_hook(lambda *_: pytest.fail("an upper layer was computed"))
    for batch in batches:
        found = list_batch_loss(reader, probes, batch, asked)
        found.loss.backward()
        total += found.loss.item()
        right += found.right
    assert total == pytest.approx(expected.item(), abs=1e-5)
    assert torch.allclose(gradient(reader, probes), expected_gradient, atol=1e-6)
    shares = {name: hits / times for hits, (name, times) in zip(right.tolist(), vars(asked).items(), strict=True)}
    assert shares == pytest.approx({name: one for name, one in (figures | wish_figures).items() if name in shares})


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


def test_half_of_the_examples_and_four_in_seven_lists_are_wishes() -> None:
    cards = [isinstance(one, Wish) for _, one in card_examples(replace(CARDS, steps=400), range(400))]
    assert 0.4 < np.mean(cards) < 0.6
    lists = [isinstance(one, Wish) for _, one in list_examples(CARDS, range(400))]
    assert 0.47 < np.mean(lists) < 0.67


def test_a_pack_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    reader = fresh_reader()
    packed = pack_examples(reader, examples()[-1:], WIDTH)
    write_packed(packed, tmp_path / "train.npz", fingerprint(METADATA, BELIEFS))
    other = tiny_tokenizer(["another corpus"] * 20, 300)
    with pytest.raises(SystemExit, match="there is no .*other.npz: `pack` writes it"):
        read_packed(tmp_path / "other.npz", fingerprint(METADATA, BELIEFS))
    with pytest.raises(SystemExit, match="another vocabulary"):
        read_packed(tmp_path / "train.npz", fingerprint(other, BELIEFS))


def test_what_is_longer_than_a_row_is_left_out() -> None:
    reader = fresh_reader()
    long = replace(RECORDED, problem="Good at sums? " * 900)
    assert len(pack_examples(reader, [(0.0, long), (1.0, RECORDED)], WIDTH // 2)) == 1


def test_rows_hold_what_fits_and_long_trees_stand_alone() -> None:
    assert list(rows_of([4, 4, 9, 3], 8)) == [[0, 1], [2], [3]]
