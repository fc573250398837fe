"""The tokenizer that a GGUF carries, rebuilt from its metadata; and a new one for a tiny model."""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

NORMAL = 1
CONTROL = 3
USER_DEFINED = 4
UNUSED = 5
CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
# What a user-defined token looks like that works as markup.
_TAG = re.compile(r"<.+>|\[.+\]")
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
    """Segments to ids, as the gateway's engine makes them (src/inference/tokens.ts)."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        vocabulary: list[str] = metadata["tokenizer.ggml.tokens"]
        merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
        types: Sequence[int] = metadata["tokenizer.ggml.token_type"]
        self._bpe = Tokenizer(BPE({token: index for index, token in enumerate(vocabulary)}, merges))
        self._bpe.pre_tokenizer = _splitter(metadata["tokenizer.ggml.pre"])
        self._bpe.decoder = decoders.ByteLevel()
        defined = [token for token, kind in zip(vocabulary, types, strict=True) if kind == USER_DEFINED]
        tags = [token for token in defined if _TAG.fullmatch(token)]
        # llama.cpp finds these in any text: runs of spaces, for instance.
        self._bpe.add_tokens([AddedToken(token, normalized=False) for token in defined if token not in tags])
        control = [token for token, kind in zip(vocabulary, types, strict=True) if kind == CONTROL]
        self._markup = {token: index for index, token in enumerate(vocabulary) if token in {*control, *tags}}
        self._tag_beginnings = _any_of(f"{re.escape(tag[0])}(?={re.escape(tag[1:])})" for tag in tags)
        # Where one tag begins with another, the longer one counts.
        self._tags = _any_of(re.escape(token) for token in sorted(self._markup, key=len, reverse=True))

    def encode(self, text: str) -> list[int]:
        """A text of somebody's. A tag of the vocabulary is cut behind its first character, so that it stays words."""
        cuts = [0, *(match.end() for match in self._tag_beginnings.finditer(text)), len(text)]
        return [token for start, end in pairwise(cuts) for token in self._plain(text[start:end])]

    def ends(self, text: str) -> list[int]:
        """Where each token of a text without tags ends, in code points."""
        return [end for _, end in self._bpe.encode(text, add_special_tokens=False).offsets]

    def decode(self, ids: Sequence[int]) -> str:
        return self._bpe.decode(list(ids), skip_special_tokens=False)

    def encode_segments(self, segments: Iterable[dict[str, str]]) -> list[int]:
        """Neighbours of one kind are one text. Words in markup, such as a tag that the vocabulary lacks, are words."""
        ids: list[int] = []
        for kind, group in groupby(segments, lambda segment: segment["kind"]):
            text = "".join(segment["text"] for segment in group)
            ids += self._encode_markup(text) if kind == "markup" else self.encode(text)
        return ids

    def _encode_markup(self, text: str) -> list[int]:
        ids: list[int] = []
        start = 0
        for match in self._tags.finditer(text):
            ids += [*self._plain(text[start : match.start()]), self._markup[match.group()]]
            start = match.end()
        return ids + self._plain(text[start:])

    def _plain(self, text: str) -> list[int]:
        return self._bpe.encode(text, add_special_tokens=False).ids


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """Matches nothing where there is no pattern."""
    return re.compile("|".join(patterns) or r"(?!)")


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
