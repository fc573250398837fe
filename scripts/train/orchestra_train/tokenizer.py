"""The tokenizer that a GGUF carries, rebuilt from its metadata; and a new one for a tiny model."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

CONTROL = 3
NORMAL = 1
CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _splitter(name: str) -> Any:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    match name:
        case "smollm":
            return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
        case "gpt-2":
            return byte_level
        case "qwen2":
            split = pre_tokenizers.Split(Regex(_QWEN2), "isolated")
            plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
            return pre_tokenizers.Sequence([split, plain])
    raise ValueError(f"pre-tokenizer {name} is not known here")


class TextTokenizer:
    """Segments to ids. Text never becomes a control token, whatever it contains."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        vocabulary: list[str] = metadata["tokenizer.ggml.tokens"]
        merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
        types: Sequence[int] = metadata["tokenizer.ggml.token_type"]
        self._bpe = Tokenizer(BPE({token: index for index, token in enumerate(vocabulary)}, merges))
        self._bpe.pre_tokenizer = _splitter(metadata["tokenizer.ggml.pre"])
        self._bpe.decoder = decoders.ByteLevel()
        self._control = {token: index for index, token in enumerate(vocabulary) if types[index] == CONTROL}

    def encode(self, text: str) -> list[int]:
        return self._bpe.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        return self._bpe.decode(list(ids), skip_special_tokens=False)

    def encode_segments(self, segments: Iterable[dict[str, str]]) -> list[int]:
        """Markup that this vocabulary lacks as a control token is the text around it, joined before splitting."""
        ids: list[int] = []
        text = ""
        for segment in segments:
            control = self._control.get(segment["text"]) if segment["kind"] == "markup" else None
            if control is None:
                text += segment["text"]
            else:
                ids += [*self.encode(text), control]
                text = ""
        return ids + self.encode(text)


def tiny_tokenizer(texts: Iterable[str], size: int) -> dict[str, Any]:
    """Metadata of a byte-level BPE in SmolLM2's manner, trained on the given texts."""
    bpe = Tokenizer(BPE())
    bpe.pre_tokenizer = _splitter("smollm")
    trainer = BpeTrainer(
        vocab_size=size,
        special_tokens=list(CONTROL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    trained = json.loads(bpe.to_str())["model"]
    tokens = sorted(trained["vocab"], key=trained["vocab"].get)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [CONTROL if token in CONTROL_TOKENS else NORMAL for token in tokens],
        "tokenizer.ggml.merges": [merge if isinstance(merge, str) else " ".join(merge) for merge in trained["merges"]],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.chat_template": (
            "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
            "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{'<|im_start|>assistant\n'}}{% endif %}"
        ),
    }
