"""What is exported decides as it did in training, wherever the decision was not a matter of rounding."""

from pathlib import Path

import numpy as np
import pytest
import torch

from engine import ask_engine
from orchestra_train.contract.beliefs import card_branch, grade_segments, problem_prefix
from orchestra_train.contract.evidence import no_evidence
from orchestra_train.contract.load import load_contract
from orchestra_train.gguf_file import GgufModel, tiny_model, write_adapter, write_model
from orchestra_train.model import add_adapter
from orchestra_train.packing import Tree, branch_log_probabilities
from orchestra_train.tokenizer import TextTokenizer, tiny_tokenizer
from orchestra_train.world.episode import fresh_episode
from orchestra_train.world.roster import WorldShape

BELIEFS = load_contract("beliefs-1")
# Nats between the likeliest and the next; below it two precisions may differ.
MARGIN = 0.3
EPISODES = [fresh_episode(np.random.default_rng(seed), WorldShape(slots=(8, 10), helpers=False)) for seed in range(12)]
CARDS = [slot.quality for episode in EPISODES for slot in episode.slots]


def opinionated(architecture: str) -> GgufModel:
    """Weights so large that most grades are told apart, as after training."""
    source = tiny_model(architecture, tiny_tokenizer([*CARDS, *BELIEFS["grades"] * 50], 400), seed=3)
    for parameter in source.model.parameters():
        parameter.data *= 3.0 if parameter.dim() > 1 else 1.0
    return source


def export(source: GgufModel, file_format: str, folder: Path) -> dict[str, Path]:
    """Where the exported lies, as the engine is asked for it. An adapter is made up and stays on the model."""
    model, adapter = folder / "tiny.gguf", folder / "adapter.gguf"
    if file_format != "adapter":
        write_model(source, model, file_format)
        return {"model": model}
    write_model(source, model, "F32")
    torch.manual_seed(2)
    add_adapter(source.model, rank=4, alpha=8)
    for part in source.model.projections().values():
        torch.nn.init.normal_(part.lora_b, std=0.1)
    write_adapter(source, adapter, BELIEFS)
    return {"model": model, "adapter": adapter}


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
@pytest.mark.parametrize("file_format", ["F32", "Q8_0", "adapter"])
def test_decisions_are_equal_wherever_the_margin_is_more_than_rounding(
    architecture: str, file_format: str, tmp_path: Path
) -> None:
    source = opinionated(architecture)
    files = export(source, file_format, tmp_path)
    encode = TextTokenizer(source.metadata).encode_segments
    grades = [encode(segments)[0] for segments in grade_segments(BELIEFS)]
    prefix = problem_prefix(EPISODES[0].problem, "", no_evidence(), 1024, BELIEFS)
    branches = [card_branch(card, "answer", BELIEFS) for card in CARDS]
    tree = Tree(encode(prefix), [encode(branch) for branch in branches])
    with torch.no_grad():
        [ours] = branch_log_probabilities(source.model, [tree], grades)

    judge = {"prompt": prefix, "questions": branches, "answers": grade_segments(BELIEFS)}
    adapter = {"adapter": str(files["adapter"])} if "adapter" in files else {}
    served = torch.tensor(ask_engine(files["model"], [], judge=judge, **adapter)["grades"])

    best = ours.topk(2).values
    clear = best[:, 0] - best[:, 1] > MARGIN
    assert clear.sum() >= 10
    assert len(ours[clear].argmax(-1).unique()) > 1
    assert torch.equal(served.argmax(-1)[clear], ours.argmax(-1)[clear])
