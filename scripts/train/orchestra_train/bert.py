"""A plain numpy sentence encoder of the BERT family: the reference for the exported GGUF, and the heads' input."""

from dataclasses import dataclass

import numpy as np
from scipy.special import erf
from tokenizers import Tokenizer

Weights = dict[str, np.ndarray]


@dataclass(frozen=True)
class SentenceEncoder:
    weights: Weights
    tokenizer: Tokenizer
    layers: int
    heads: int
    epsilon: float

    def encode(self, texts: list[str], most_tokens: int, batch_tokens: int = 4096) -> np.ndarray:
        """Unit vectors, one a text: mean over all tokens of the head of the text, special tokens included."""
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_length=most_tokens)
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch(texts)]
        order = sorted(range(len(ids)), key=lambda index: len(ids[index]))
        vectors = np.zeros((len(ids), self.weights["embeddings.word_embeddings.weight"].shape[1]), np.float32)
        for batch in _batches(order, ids, batch_tokens):
            vectors[batch] = self._forward([ids[index] for index in batch])
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def _forward(self, ids: list[list[int]]) -> np.ndarray:
        length = max(len(row) for row in ids)
        padded = np.array([row + [0] * (length - len(row)) for row in ids])
        mask = np.array([[1.0] * len(row) + [0.0] * (length - len(row)) for row in ids], np.float32)
        w = self.weights
        hidden = w["embeddings.word_embeddings.weight"][padded]
        hidden = hidden + w["embeddings.position_embeddings.weight"][:length]
        hidden = self._norm(hidden + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(self.layers):
            hidden = self._layer(hidden, mask, f"encoder.layer.{layer}")
        return (hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)

    def _layer(self, hidden: np.ndarray, mask: np.ndarray, name: str) -> np.ndarray:
        attended = self._attention(hidden, mask, f"{name}.attention.self")
        attended = self._linear(attended, f"{name}.attention.output.dense")
        hidden = self._norm(hidden + attended, f"{name}.attention.output.LayerNorm")
        inner = self._linear(hidden, f"{name}.intermediate.dense")
        inner = inner * 0.5 * (1.0 + erf(inner * np.float32(2**-0.5)))
        return self._norm(hidden + self._linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def _attention(self, hidden: np.ndarray, mask: np.ndarray, name: str) -> np.ndarray:
        rows, length, width = hidden.shape

        def split(part: str) -> np.ndarray:
            projected = self._linear(hidden, f"{name}.{part}")
            return projected.reshape(rows, length, self.heads, width // self.heads).transpose(0, 2, 1, 3)

        scores = split("query") @ split("key").transpose(0, 1, 3, 2) * np.float32((width // self.heads) ** -0.5)
        scores = scores + (mask[:, None, None, :] - 1.0) * np.float32(1e9)
        raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (raised / raised.sum(axis=-1, keepdims=True)) @ split("value")
        return mixed.transpose(0, 2, 1, 3).reshape(rows, length, width)

    def _linear(self, values: np.ndarray, name: str) -> np.ndarray:
        return values @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _norm(self, values: np.ndarray, name: str) -> np.ndarray:
        centred = values - values.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt(variance + np.float32(self.epsilon))
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def _batches(order: list[int], ids: list[list[int]], batch_tokens: int) -> list[list[int]]:
    """Neighbours in length together, so that little is padding."""
    batches: list[list[int]] = []
    for index in order:
        if batches and (len(batches[-1]) + 1) * len(ids[index]) <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
