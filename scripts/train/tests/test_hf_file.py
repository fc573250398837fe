"""A Qwen3 in Hugging Face's form is the same model as its GGUF, and its adapters carry their names."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine import ask_engine
from orchestra_train.gguf_file import GgufModel, read_model, tiny_model, write_model
from orchestra_train.hf_file import read_base, read_checkpoint, write_peft
from orchestra_train.model import add_adapter
from orchestra_train.tokenizer import CONTROL, NORMAL, USER_DEFINED, TextTokenizer, tiny_tokenizer

TEXTS = ["The price is 12.50 dollars.", "def f(x):\n    return x", "<think>\nno\n</think>", "東京 don't  answer\r\n😀"]
# Of the layout of transformers' Qwen3ForCausalLM.
BLOCK = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip


def tiny_qwen() -> GgufModel:
    metadata = tiny_tokenizer(TEXTS * 20, 330)
    metadata["tokenizer.ggml.pre"] = "qwen2"
    for tag in ("<think>", "</think>", "<tool_call>", "</tool_call>"):
        metadata["tokenizer.ggml.tokens"].append(tag)
        metadata["tokenizer.ggml.token_type"].append(USER_DEFINED)
    return tiny_model("qwen3", metadata, seed=4)


def write_theirs(source: GgufModel, folder: Path, parts: int, padding: int = 0) -> None:
    """The same weights in bfloat16's range, in several files, with an embedding that has rows without a token."""
    folder.mkdir()
    config, metadata = source.model.config, source.metadata
    tensors = {}
    for name, value in source.model.state_dict().items():
        if name.startswith("blk."):
            _, number, part, kind = name.split(".")
            tensors[f"model.layers.{number}.{BLOCK[part]}.{kind}"] = value
        else:
            tensors["model.embed_tokens.weight" if name == "token_embd.weight" else "model.norm.weight"] = value
    embedding = tensors["model.embed_tokens.weight"]
    tensors["model.embed_tokens.weight"] = torch.cat([embedding, torch.zeros(padding, config.width)])
    names = list(tensors)
    for part in range(parts):
        save_file({name: tensors[name] for name in names[part::parts]}, folder / f"model-{part}.safetensors")
    told = {
        "model_type": "qwen3", "vocab_size": config.vocabulary + padding, "num_hidden_layers": config.layers,
        "hidden_size": config.width, "intermediate_size": config.feed_forward, "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads, "head_dim": config.head_width, "rope_theta": config.rope_base,
        "rms_norm_eps": config.norm_epsilon, "max_position_embeddings": config.context, "tie_word_embeddings": True,
        "eos_token_id": 2, "bos_token_id": 0,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(told))
    tokens, types = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    vocabulary = {token: number for number, token in enumerate(tokens) if types[number] == NORMAL}
    added = [
        {"id": number, "content": token, "special": types[number] == CONTROL}
        for number, token in enumerate(tokens)
        if types[number] != NORMAL
    ]
    merges = [merge.split(" ") for merge in metadata["tokenizer.ggml.merges"]]
    model = {"type": "BPE", "vocab": vocabulary, "merges": merges}
    (folder / "tokenizer.json").write_text(json.dumps({"model": model, "added_tokens": added}))


def test_a_checkpoint_of_hugging_face_is_read_as_the_gguf_of_the_same_weights(tmp_path: Path) -> None:
    source = tiny_qwen()
    write_theirs(source, tmp_path / "theirs", parts=2)
    write_model(source, tmp_path / "tiny.gguf", "F32")
    ours, theirs = read_model(tmp_path / "tiny.gguf"), read_base(tmp_path / "theirs")
    assert theirs.model.config == ours.model.config
    ids = torch.arange(3, 40)[None]
    with torch.no_grad():
        assert torch.equal(theirs.model.logits(theirs.model(ids)), ours.model.logits(ours.model(ids)))
    tokenizers = TextTokenizer(theirs.metadata), TextTokenizer(ours.metadata)
    for text in TEXTS:
        assert len({tuple(one.encode(text)) for one in tokenizers}) == 1


def test_the_engine_reads_a_gguf_that_was_written_of_a_checkpoint_with_rows_to_spare(tmp_path: Path) -> None:
    source = tiny_qwen()
    write_theirs(source, tmp_path / "theirs", parts=1, padding=6)
    theirs = read_checkpoint(tmp_path / "theirs")
    write_model(theirs, tmp_path / "theirs.gguf", "F16")
    tokenizer = TextTokenizer(theirs.metadata)
    texts = [text for text in TEXTS if "<think>" not in text]
    assert ask_engine(tmp_path / "theirs.gguf", texts)["tokens"] == [tokenizer.encode(text) for text in texts]


def test_other_models_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(ValueError, match="only qwen3"):
        read_base(tmp_path)


def test_an_adapter_for_vllm_has_every_projection_under_the_names_of_its_checkpoint(tmp_path: Path) -> None:
    model = tiny_qwen().model
    add_adapter(model, rank=4, alpha=8)
    write_peft(model, tmp_path)
    tensors = load_file(tmp_path / "adapter_model.safetensors")
    about = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (about["r"], about["lora_alpha"]) == (4, 8)
    for own, theirs in BLOCK.items():
        if own.endswith("norm"):
            continue
        assert theirs.split(".")[1] in about["target_modules"]
        for number, block in enumerate(model.blk):
            part = getattr(block, own)
            stem = f"base_model.model.model.layers.{number}.{theirs}"
            assert torch.equal(tensors.pop(f"{stem}.lora_A.weight"), part.lora_a)
            assert torch.equal(tensors.pop(f"{stem}.lora_B.weight"), part.lora_b)
    assert not tensors


@pytest.mark.parametrize(
    "told", [{"rope_scaling": {"rope_type": "yarn"}}, {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6}}]
)
def test_scaled_rotations_are_refused_in_either_form(told: dict, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3", **told}))
    with pytest.raises(ValueError, match="scaled rotations"):
        read_base(tmp_path)
