"""GGUF in, GGUF out: weights into torch and back, with the tokenizer's metadata carried over untouched."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter

from .contract.load import Contract
from .model import Decoder, ModelConfig, random_model

FORMATS = {
    "F32": (GGMLQuantizationType.F32, gguf.LlamaFileType.ALL_F32),
    "F16": (GGMLQuantizationType.F16, gguf.LlamaFileType.MOSTLY_F16),
    "Q8_0": (GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
}
# Which contract the weights were trained with: its name, by which they are served, and a hash of its texts; the gateway
# warns where it serves others.
CONTRACT_NAME, CONTRACT_HASH = "orchestra.contract", "orchestra.contract_hash"
_OURS = (
    "GGUF.",
    "general.architecture",
    "general.file_type",
    "general.quantization_version",
    CONTRACT_NAME,
    CONTRACT_HASH,
)


@dataclass(frozen=True)
class GgufModel:
    """A model with the metadata that its file carries along."""

    model: Decoder
    metadata: dict[str, Any]


def read_model(path: Path) -> GgufModel:
    """Any file whose tensors `gguf` can dequantise, as float32."""
    reader = GGUFReader(path)
    metadata = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    tensors = {
        tensor.name: torch.from_numpy(
            np.array(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        )
        for tensor in reader.tensors
    }
    model = Decoder(_config(metadata, tied="output.weight" not in tensors))
    tensors.pop("rope_freqs.weight", None)
    model.load_state_dict(tensors)
    return GgufModel(model, metadata)


def tiny_model(architecture: str, tokenizer: dict[str, Any], seed: int, **shape: int) -> GgufModel:
    """Random weights around a tokenizer: what tests and the smoke run start from."""
    sizes = {"layers": 2, "width": 64, "feed_forward": 160, "heads": 4, "kv_heads": 2, "head_width": 16, **shape}
    vocabulary = len(tokenizer["tokenizer.ggml.tokens"])
    config = ModelConfig(architecture, vocabulary, **sizes, rope_base=10_000.0, norm_epsilon=2.0**-17, context=4096)
    return GgufModel(random_model(config, seed), {**shape_metadata(config), **tokenizer})


def write_model(source: GgufModel, path: Path, file_format: str, contract: Contract | None = None) -> None:
    """The whole model, adapters merged in float32 and quantised once."""
    weight_type, file_type = FORMATS[file_format]
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = GGUFWriter(path, source.model.config.architecture)
    writer.add_file_type(file_type)
    _add_metadata(writer, source.metadata)
    if contract:
        _tell_contract(writer, contract)
    merged = {f"{name}.weight": part.merged() for name, part in source.model.projections().items()}
    for name, parameter in source.model.state_dict().items():
        if "lora_" in name:
            continue
        values = merged.get(name, parameter).detach().to("cpu", torch.float32).numpy()
        _add_tensor(writer, name, values, weight_type)
    _finish(writer)


def write_adapter(source: GgufModel, path: Path, contract: Contract) -> None:
    """The adapter alone, half precision, for use on the untouched base file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = GGUFWriter(path, source.model.config.architecture)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    _tell_contract(writer, contract)
    alphas = set()
    for name, part in source.model.projections().items():
        if part.lora_a is None or part.lora_b is None:
            raise ValueError("the model has no adapter")
        alphas.add(part.scale * part.lora_a.shape[0])
        for side, matrix in (("lora_a", part.lora_a), ("lora_b", part.lora_b)):
            writer.add_tensor(f"{name}.weight.{side}", matrix.detach().to("cpu", torch.float16).numpy())
    [alpha] = alphas
    writer.add_float32("adapter.lora.alpha", alpha)
    _finish(writer)


def read_adapter(path: Path) -> tuple[dict[str, torch.Tensor], float]:
    """What `write_adapter` wrote: float32 by parameter, and alpha.

    @raises ValueError, KeyError where the file is no such adapter.
    """
    reader = GGUFReader(path)
    alpha = reader.fields["adapter.lora.alpha"].contents()
    weights = {
        tensor.name.replace(".weight.", "."): torch.from_numpy(np.array(tensor.data, dtype=np.float32))
        for tensor in reader.tensors
    }
    return weights, alpha


def _tell_contract(writer: GGUFWriter, contract: Contract) -> None:
    writer.add_string(CONTRACT_NAME, contract["name"])
    writer.add_string(CONTRACT_HASH, contract["hash"])


def _add_tensor(writer: GGUFWriter, name: str, values: np.ndarray, weight_type: GGMLQuantizationType) -> None:
    if values.ndim < 2 or weight_type == GGMLQuantizationType.F32:
        writer.add_tensor(name, np.ascontiguousarray(values, dtype=np.float32))
        return
    # Blocks of Q8_0 have 32 values; rows that do not fit stay in half precision.
    fits = values.shape[-1] % 32 == 0
    kind = weight_type if fits else GGMLQuantizationType.F16
    writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)


def _finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_metadata(writer: GGUFWriter, metadata: dict[str, Any]) -> None:
    for name, value in metadata.items():
        if name.startswith(_OURS):
            continue
        item = value[0] if isinstance(value, list) and value else value
        kind = GGUFValueType.INT32 if isinstance(value, list) else GGUFValueType.UINT32
        item_type = GGUFValueType.get_type(item) if not _is_whole(item) else kind
        if isinstance(value, list):
            writer.add_key_value(name, value, GGUFValueType.ARRAY, item_type)
        else:
            writer.add_key_value(name, value, item_type)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _config(metadata: dict[str, Any], tied: bool) -> ModelConfig:
    architecture = metadata["general.architecture"]
    if architecture not in ("llama", "qwen3"):
        raise ValueError(f"architecture {architecture} is not one of llama, qwen3")

    def of(key: str, otherwise: Any = None) -> Any:
        return metadata.get(f"{architecture}.{key}", otherwise)

    if of("rope.scaling.type", "none") != "none":
        raise ValueError("scaled rotations are not known here")
    width, heads = of("embedding_length"), of("attention.head_count")
    return ModelConfig(
        architecture,
        len(metadata["tokenizer.ggml.tokens"]),
        of("block_count"),
        width,
        of("feed_forward_length"),
        heads,
        of("attention.head_count_kv", heads),
        of("attention.key_length", width // heads),
        of("rope.freq_base", 10_000.0),
        of("attention.layer_norm_rms_epsilon"),
        of("context_length"),
        tied,
    )


def shape_metadata(config: ModelConfig) -> dict[str, Any]:
    shape = {
        "block_count": config.layers,
        "context_length": config.context,
        "embedding_length": config.width,
        "feed_forward_length": config.feed_forward,
        "attention.head_count": config.heads,
        "attention.head_count_kv": config.kv_heads,
        "attention.key_length": config.head_width,
        "attention.value_length": config.head_width,
        "rope.dimension_count": config.head_width,
        "rope.freq_base": config.rope_base,
        "attention.layer_norm_rms_epsilon": config.norm_epsilon,
        "vocab_size": config.vocabulary,
    }
    return {f"{config.architecture}.{key}": value for key, value in shape.items()}
