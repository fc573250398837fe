"""Every tensor of a training step lies where the model does. There is no GPU here: tensors of another device without
values stand for one, and an operation on two devices fails as it would there."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from orchestra_train.contract.load import load_contract
from orchestra_train.device import place
from orchestra_train.gguf_file import tiny_model
from orchestra_train.lanes import Lanes
from orchestra_train.model import Decoder, add_adapter
from orchestra_train.packing import Row, batch_inputs
from orchestra_train.passages import Passage, own_log_probabilities
from orchestra_train.policy import BeliefsPolicy, SlotsPolicy
from orchestra_train.reading.batches import batch_loss, batches_of
from orchestra_train.reading.hints import Probes
from orchestra_train.reading.lists import fresh_list
from orchestra_train.reading.midway import read_midway
from orchestra_train.reading.packed import pack_examples
from orchestra_train.reading.packed_lists import asked_of, list_batch_loss
from orchestra_train.reading.problems import ProblemSource, open_subjects
from orchestra_train.reading.reader import Reader
from orchestra_train.reading.rosters import ReadingShape, fresh_reading
from orchestra_train.reading.wishes import fresh_wish
from orchestra_train.rollout import Written
from orchestra_train.sft import random_turn
from orchestra_train.tokenizer import TextTokenizer, tiny_tokenizer
from orchestra_train.world.roster import WorldShape
from orchestra_train.written import WritingPolicy

BELIEFS, SLOTS = load_contract("beliefs-1"), load_contract("slots-2")
SHAPE = WorldShape(slots=(3, 3), specialists=False, named_domains=(0, 0), helpers=False)
METADATA = tiny_tokenizer(BELIEFS["grades"] * 50 + ["Is good at everything. Problem: how many?"] * 20, 350)
TOKENIZER = TextTokenizer(METADATA)
Loss = Callable[[Decoder], torch.Tensor]
FAR = torch.device("meta")
# What comes back to the CPU are log-probabilities: here of five grades, all alike.
EVEN = -math.log(5)
# Indices may come from the CPU on a GPU too.
INDEXING = {torch.ops.aten.index.Tensor, torch.ops.aten._unsafe_index.Tensor, torch.ops.aten.index_put.default}


class FarDevice(TorchDispatchMode):
    """Lets `meta` stand for a GPU: nothing is computed, two devices in one operation fail, copies to the CPU work."""

    def __torch_dispatch__(
        self, operation: Any, types: Any, arguments: tuple = (), named: dict[str, Any] | None = None
    ) -> Any:
        named = named or {}
        tensors = [one for one in tree_leaves((arguments, named)) if isinstance(one, torch.Tensor)]
        moves = operation in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
        if moves and named.get("device") == torch.device("cpu"):
            return torch.full_like(tensors[0], EVEN, device="cpu", dtype=named.get("dtype"))
        devices = {one.device for one in tensors if one.dim() > 0}
        if len(devices) > 1 and not moves and operation not in INDEXING:
            raise RuntimeError(f"{operation} got tensors of more than one device")
        return operation(*arguments, **named)


@pytest.fixture(autouse=True)
def far_device() -> Iterator[None]:
    with FarDevice():
        yield


def far_model(architecture: str) -> Decoder:
    model = tiny_model(architecture, METADATA, seed=1).model
    add_adapter(model, rank=4, alpha=8)
    place(model, FAR)
    return model


def turns(count: int) -> list:
    rng = np.random.default_rng(3)
    return [random_turn(rng, SHAPE, SLOTS) for _ in range(count)]


def reading_loss(model: Decoder) -> torch.Tensor:
    reader = Reader(model, TOKENIZER, BELIEFS)
    example = fresh_reading(np.random.default_rng(1), ProblemSource({}, False), 3, ReadingShape(), unseen=False)
    midway = read_midway(reader, Probes(model.config.width, model.config.layers), example)
    [found] = reader.grades([reader.tree(example)])
    return found.sum() + midway.grades.sum() + midway.hint_loss


def packed_loss_of(model: Decoder) -> torch.Tensor:
    reader = Reader(model, TOKENIZER, BELIEFS)
    examples = [
        (1.0, fresh_reading(np.random.default_rng(number), ProblemSource({}, False), 3, ReadingShape(), unseen=False))
        for number in range(3)
    ]
    examples.append((1.0, fresh_wish(np.random.default_rng(1), unseen=False)))
    [batch] = batches_of(pack_examples(reader, examples, 1500), range(4), 1500, rows_at_once=9)
    found = batch_loss(reader, far_probes(model), batch)
    return (found.answers + found.hints).cpu()


def far_probes(model: Decoder) -> Probes:
    with torch.device(FAR):
        return Probes(model.config.width, model.config.layers)


def packed_list_loss_of(model: Decoder) -> torch.Tensor:
    """Beside that of cards, which alone reaches the upper layers."""
    reader = Reader(model, TOKENIZER, BELIEFS)
    rng = np.random.default_rng(1)
    lists = [fresh_list(rng, ProblemSource({}, False), open_subjects(unseen=False)) for _ in range(3)]
    examples = [(0.0, one) for one in (*lists, fresh_wish(rng, unseen=False))]
    packed = pack_examples(reader, examples, 1500, listed=True)
    [batch] = batches_of(packed, range(4), 1500, rows_at_once=9)
    found = list_batch_loss(reader, far_probes(model), batch, asked_of(packed, range(4)))
    assert found.right.device == FAR
    return found.loss.cpu() + packed_loss_of(model)


def choosing_loss(model: Decoder) -> torch.Tensor:
    rows = BeliefsPolicy(model, TOKENIZER, BELIEFS).log_probabilities(turns(2))
    return torch.stack([row[0] for row in rows]).sum()


def written_loss(model: Decoder) -> torch.Tensor:
    policy = WritingPolicy(model, TOKENIZER, SLOTS)
    return torch.stack(policy.token_log_probabilities(turns(1), [Written((5, 6, 7), None)])).sum()


def passages_loss(model: Decoder) -> torch.Tensor:
    """Of texts that lanes wrote, read in between."""
    lanes = Lanes(model, [[5, 6, 7]], copies=2)
    written = lanes.write([0, 1], lambda _, scores: scores.argmax(-1).tolist(), end=2, most=3)
    lanes.read([[8], []])
    passages = [Passage((5, 6, 7), (*ids, 8), (*[True] * len(ids), False)) for ids in written.values()]
    return torch.cat(own_log_probabilities(model, passages)).sum()


LOSSES: dict[str, Loss] = {
    "cards": reading_loss,
    "packed cards": packed_loss_of,
    "packed lists": packed_list_loss_of,
    "beliefs sft": lambda model: BeliefsPolicy(model, TOKENIZER, BELIEFS).warm_start_loss(turns(3)),
    "beliefs grpo": choosing_loss,
    "slots sft": lambda model: SlotsPolicy(model, TOKENIZER, SLOTS).warm_start_loss(turns(2)),
    "written": written_loss,
    "passages": passages_loss,
}


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
@pytest.mark.parametrize("kind", LOSSES)
def test_a_step_computes_on_the_models_device_and_brings_the_loss_back(kind: str, architecture: str) -> None:
    model = far_model(architecture)
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learnt)
    loss = LOSSES[kind](model)
    assert loss.device.type == "cpu"
    loss.backward()
    assert all(one.grad is not None and one.grad.device == FAR for one in learnt)
    torch.nn.utils.clip_grad_norm_(learnt, 1.0)
    optimizer.step()
    assert all(optimizer.state[one]["exp_avg"].device == FAR for one in learnt)


def test_the_far_device_notices_a_tensor_that_was_left_on_the_cpu() -> None:
    model = far_model("llama")
    reading = fresh_reading(np.random.default_rng(1), ProblemSource({}, False), 3, ReadingShape(), unseen=False)
    row = Row()
    row.add(Reader(model, TOKENIZER, BELIEFS).tree(reading))
    tokens, positions, mask = batch_inputs([row], torch.device("cpu"))
    with pytest.raises(RuntimeError, match="device"):
        model(tokens)
    with pytest.raises(RuntimeError, match="device"):
        model(tokens.to(FAR), positions.to(FAR), mask)
