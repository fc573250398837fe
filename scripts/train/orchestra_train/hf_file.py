"""Hugging Face checkpoints of Qwen3: `config.json`, safetensors and `tokenizer.json`, as a GGUF of them would be read;
and adapters as vLLM loads them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from .gguf_file import GgufModel, read_model, shape_metadata
from .model import Decoder, ModelConfig
from .processes import is_first
from .sharding import whole
from .tokenizer import CONTROL, NORMAL, UNUSED, USER_DEFINED

_WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_PROJECTIONS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_PARTS = {
    **_PROJECTIONS,
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def read_base(path: Path) -> GgufModel:
    """A GGUF, or the folder of a Hugging Face checkpoint."""
    return read_checkpoint(path) if path.is_dir() else read_model(path)


def open_base(path: Path) -> GgufModel:
    """`read_base` for a command line.

    @raises SystemExit where `--base` is not there, or no model that can learn here.
    """
    if not path.exists():
        raise SystemExit(f"--base: there is no {path}; `orchestra models pull smollm2-135m-instruct` fetches SmolLM2")
    try:
        return read_base(path)
    except KeyError as missing:
        raise SystemExit(f"--base: {path} is no whole model: it lacks {missing}") from None
    except (ValueError, OSError, RuntimeError) as problem:
        raise SystemExit(f"--base: {path} cannot be trained on: {problem}") from None


def read_checkpoint(folder: Path) -> GgufModel:
    """Weights in float32, and the metadata that a GGUF of the model needs."""
    told = json.loads((folder / "config.json").read_text("utf-8"))
    if told["model_type"] != "qwen3":
        raise ValueError(f"{told['model_type']}: only qwen3 is read from Hugging Face's form; others as GGUF")
    plain = (told.get("rope_parameters") or {}).get("rope_type", "default") == "default"
    if told.get("rope_scaling") or told.get("attention_bias") or not plain:
        raise ValueError("scaled rotations and biases are not known here")
    config = _config(told)
    # Nothing is allotted twice: the tensors read become the parameters.
    with torch.device("meta"):
        model = Decoder(config)
    tensors = dict(_tensors(folder))
    if config.tied:
        tensors.pop("output.weight", None)
    model.load_state_dict(tensors, assign=True)
    return GgufModel(model, {**shape_metadata(config), **_tokenizer(folder, told)})


def _config(told: dict[str, Any]) -> ModelConfig:
    rope = told.get("rope_theta") or told["rope_parameters"]["rope_theta"]
    return ModelConfig(
        "qwen3",
        told["vocab_size"],
        told["num_hidden_layers"],
        told["hidden_size"],
        told["intermediate_size"],
        told["num_attention_heads"],
        told["num_key_value_heads"],
        told["head_dim"],
        float(rope),
        told["rms_norm_eps"],
        told["max_position_embeddings"],
        told.get("tie_word_embeddings", False),
    )


def _tensors(folder: Path) -> Iterator[tuple[str, Tensor]]:
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 (the file is no mapping)
                yield _own_name(name), file.get_tensor(name).float()


def _own_name(name: str) -> str:
    stem = name.removesuffix(".weight")
    if stem in _WHOLE:
        return f"{_WHOLE[stem]}.weight"
    _, _, number, part = stem.split(".", 3)
    return f"blk.{number}.{_PARTS[part]}.weight"


def _tokenizer(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    told = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    # Rows of the embedding that have no token are named, as llama.cpp does it.
    tokens = [f"[PAD{number}]" for number in range(config["vocab_size"])]
    types = [UNUSED] * len(tokens)
    for token, number in told["model"]["vocab"].items():
        tokens[number], types[number] = token, NORMAL
    for added in told["added_tokens"]:
        tokens[added["id"]] = added["content"]
        types[added["id"]] = CONTROL if added["special"] else USER_DEFINED
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in told["model"]["merges"]]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.eos_token_id": config["eos_token_id"],
        "tokenizer.ggml.bos_token_id": config["bos_token_id"],
        "tokenizer.ggml.add_bos_token": False,
        **_chat_template(folder),
    }


def _chat_template(folder: Path) -> dict[str, str]:
    alone, beside = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    if alone.exists():
        return {"tokenizer.chat_template": alone.read_text("utf-8")}
    template = json.loads(beside.read_text("utf-8")).get("chat_template") if beside.exists() else None
    return {"tokenizer.chat_template": template} if isinstance(template, str) else {}


def write_peft(model: Decoder, folder: Path) -> None:
    """The adapter in the form of PEFT, by the first process; all call it where the model is shared out."""
    if model.config.architecture != "qwen3":
        raise ValueError("adapters for vLLM are written for qwen3 alone")
    theirs = {own: name for name, own in _PROJECTIONS.items()}
    tensors, ranks, alphas = {}, set(), set()
    for name, part in model.projections().items():
        if part.lora_a is None or part.lora_b is None:
            raise ValueError("the model has no adapter")
        _, number, own = name.split(".")
        stem = f"base_model.model.model.layers.{number}.{theirs[own]}"
        for side, matrix in (("lora_A", part.lora_a), ("lora_B", part.lora_b)):
            tensors[f"{stem}.{side}.weight"] = whole(matrix.detach()).to("cpu", torch.float32).contiguous()
        ranks.add(part.lora_a.shape[0])
        alphas.add(part.scale * part.lora_a.shape[0])
    if not is_first():
        return
    [rank], [alpha] = ranks, alphas
    about = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": [name.split(".")[1] for name in _PROJECTIONS],
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps(about))
