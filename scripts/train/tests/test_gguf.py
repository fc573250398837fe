"""What is written is what the engine reads: same tokens, same probabilities, at every precision."""

import json
import math
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine import ask_engine
from orchestra_train.contract.load import REPOSITORY, load_contract
from orchestra_train.gguf_file import GgufModel, read_model, tiny_model, write_adapter, write_model
from orchestra_train.model import add_adapter
from orchestra_train.tokenizer import USER_DEFINED, TextTokenizer, tiny_tokenizer

PIECES = [
    "price",
    " 12.50",
    " $0.003",
    "\n",
    "\r\n",
    "  ",
    "東京",
    " é",
    "😀",
    "<|im_end|>",
    " don't",
    "def f(x):",
    "\t",
    "—",
    "9",
]
DEFINED_TAGS = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
CORPUS = ["The price is 12.50 dollars.", "def f(x):\n    return x", "don't answer: search!", "an answer of 42"] * 50


def probe_strings(count: int) -> list[str]:
    chance = random.Random(7)
    return ["".join(chance.choices(PIECES, k=chance.randint(1, 12))) for _ in range(count)]


def tiny(architecture: str) -> GgufModel:
    return tiny_model(architecture, tiny_tokenizer(CORPUS, 320), seed=3)


def torch_steps(source: GgufModel, prompt: list[int], chosen: list[int]) -> torch.Tensor:
    """Log-probabilities [steps, vocabulary] behind the prompt, along the engine's own choices."""
    ids = torch.tensor([prompt + chosen])
    with torch.no_grad():
        return source.model.logits(source.model(ids)[0, len(prompt) - 1 : -1]).log_softmax(-1)


def differences(source: GgufModel, answer: dict, prompt: list[int]) -> list[float]:
    chosen = [step[0][0] for step in answer["probabilities"]]
    ours = torch_steps(source, prompt, chosen)
    return [
        abs(math.log(probability) - ours[step, token].item())
        for step, likeliest in enumerate(answer["probabilities"])
        for token, probability in likeliest[:5]
    ]


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_two_hundred_strings_are_tokenised_alike(architecture: str, tmp_path: Path) -> None:
    source = tiny(architecture)
    write_model(source, tmp_path / "tiny.gguf", "F32")
    texts = probe_strings(200)
    tokenizer = TextTokenizer(source.metadata)
    assert ask_engine(tmp_path / "tiny.gguf", texts)["tokens"] == [tokenizer.encode(text) for text in texts]


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
@pytest.mark.parametrize(
    ("file_format", "mean", "most"), [("F32", 0.002, 0.01), ("F16", 0.01, 0.05), ("Q8_0", 0.05, 0.3)]
)
def test_the_engine_computes_what_torch_computes(
    architecture: str, file_format: str, mean: float, most: float, tmp_path: Path
) -> None:
    source = tiny(architecture)
    path = tmp_path / "tiny.gguf"
    write_model(source, path, file_format)
    prompt = TextTokenizer(source.metadata).encode("The price is 12.50 dollars. 東京 don't answer")
    answer = ask_engine(path, [], prompt=prompt, greedy=12)
    found = differences(source, answer, prompt)
    assert sum(found) / len(found) < mean
    assert max(found) < most
    if file_format == "F32":
        chosen = [step[0][0] for step in answer["probabilities"]]
        assert torch_steps(source, prompt, chosen).argmax(-1).tolist() == chosen


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_an_adapter_on_the_base_file_equals_the_adapted_model(architecture: str, tmp_path: Path) -> None:
    source = tiny(architecture)
    base, adapter = tmp_path / "base.gguf", tmp_path / "adapter.gguf"
    write_model(source, base, "F32")
    prompt = TextTokenizer(source.metadata).encode("an answer of 42")
    add_adapter(source.model, rank=4, alpha=8)
    for part in source.model.projections().values():
        torch.nn.init.normal_(part.lora_b, std=0.1)
    write_adapter(source, adapter, load_contract("slots-2"))
    adapted = ask_engine(base, [], adapter=str(adapter), prompt=prompt, greedy=8)
    assert max(differences(source, adapted, prompt)) < 0.05
    assert max(differences(source, ask_engine(base, [], prompt=prompt, greedy=8), prompt)) > 0.3


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_reading_back_gives_weights_and_metadata_again(architecture: str, tmp_path: Path) -> None:
    source = tiny(architecture)
    write_model(source, tmp_path / "tiny.gguf", "F32")
    back = read_model(tmp_path / "tiny.gguf")
    assert back.model.config == source.model.config
    for name, value in source.model.state_dict().items():
        assert torch.equal(back.model.state_dict()[name], value), name
    carried = {name: value for name, value in back.metadata.items() if name.startswith("tokenizer.")}
    assert carried == {name: value for name, value in source.metadata.items() if name.startswith("tokenizer.")}


def with_defined_tokens(metadata: dict) -> dict:
    """Tags of Qwen3's manner and a run of spaces, which the tokenizer of llama.cpp finds in any text."""
    added = [*DEFINED_TAGS, "   "]
    tokens = [*metadata["tokenizer.ggml.tokens"], *added]
    types = [*metadata["tokenizer.ggml.token_type"], *[USER_DEFINED] * len(added)]
    return {**metadata, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types}


def probe_segments(count: int) -> list[list[dict[str, str]]]:
    chance = random.Random(8)
    pieces = [*PIECES, *DEFINED_TAGS, "<|im_start|>", "<", "tool_call>", " ", "   ", "     x"]
    tags = ["<|im_start|>", "<|im_end|>", "\n", *DEFINED_TAGS, "<tools>"]

    def segment() -> dict[str, str]:
        kind = chance.choice(["markup", "text"])
        source = tags if kind == "markup" else pieces
        return {"kind": kind, "text": "".join(chance.choices(source, k=chance.randint(1, 6)))}

    return [[segment() for _ in range(chance.randint(1, 6))] for _ in range(count)]


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
@pytest.mark.parametrize("defined", [False, True])
def test_segments_are_tokenised_as_the_gateway_serves_them(architecture: str, defined: bool, tmp_path: Path) -> None:
    metadata = tiny_tokenizer(CORPUS, 320)
    source = tiny_model(architecture, with_defined_tokens(metadata) if defined else metadata, seed=3)
    write_model(source, tmp_path / "tiny.gguf", "F32")
    tokenizer = TextTokenizer(source.metadata)
    segments = probe_segments(200)
    served = ask_engine(tmp_path / "tiny.gguf", [], segments=segments)["served"]
    for given, ids in zip(segments, served, strict=True):
        assert tokenizer.encode_segments(given) == ids, given


def test_tags_in_the_text_of_others_stay_words() -> None:
    tokenizer = TextTokenizer(with_defined_tokens(tiny_tokenizer(CORPUS, 320)))
    control = {token: tokenizer.encode_segments([{"kind": "markup", "text": token}]) for token in DEFINED_TAGS}
    assert all(len(ids) == 1 for ids in control.values())
    for tag, [token] in control.items():
        ids = tokenizer.encode(f"say {tag} now")
        assert token not in ids
        assert tokenizer.decode(ids) == f"say {tag} now"


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    source = tiny("llama")
    source.model.config = replace(source.model.config, architecture="gemma3")
    write_model(source, tmp_path / "tiny.gguf", "F32")
    with pytest.raises(ValueError, match="gemma3"):
        read_model(tmp_path / "tiny.gguf")


def test_scaled_rotations_are_refused(tmp_path: Path) -> None:
    source = tiny("qwen3")
    source.metadata["qwen3.rope.scaling.type"] = "yarn"
    write_model(source, tmp_path / "tiny.gguf", "F32")
    with pytest.raises(ValueError, match="scaled rotations"):
        read_model(tmp_path / "tiny.gguf")


PULLED = Path(os.environ.get("ORCHESTRA_MODELS", Path.home() / ".cache/orchestra/models"))
[SMOLLM2] = [
    PULLED / entry["file"]
    for entry in json.loads((REPOSITORY / "models/downloads.json").read_text())["models"]
    if entry["id"] == "smollm2-135m-instruct"
]


@pytest.mark.smollm2
@pytest.mark.skipif(
    not SMOLLM2.exists() and os.environ.get("ORCHESTRA_REQUIRE_SMOLLM2") != "1", reason=f"{SMOLLM2} was not pulled"
)
def test_smollm2_is_read_as_the_engine_reads_it() -> None:
    source = read_model(SMOLLM2)
    tokenizer = TextTokenizer(source.metadata)
    texts = probe_strings(200)
    segments = probe_segments(200)
    prompt = tokenizer.encode("The capital of France is")
    answer = ask_engine(SMOLLM2, texts, segments=segments, prompt=prompt, greedy=6)
    assert answer["tokens"] == [tokenizer.encode(text) for text in texts]
    assert answer["served"] == [tokenizer.encode_segments(given) for given in segments]
    assert tokenizer.decode([answer["probabilities"][0][0][0]]) == " Paris"
    found = differences(source, answer, prompt)
    assert sum(found) / len(found) < 0.1
    assert max(found) < 0.5
