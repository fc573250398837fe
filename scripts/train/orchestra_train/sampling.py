"""Who writes a policy's turns: torch itself, or a server that speaks vLLM's API and reads adapters from a folder."""

import http.client
import json
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from torch import Tensor

from .hf_file import write_peft
from .lanes import Lanes
from .model import Decoder
from .post import post_json
from .processes import is_first, wait_for_all
from .tokenizer import TextTokenizer

Reply = TypeVar("Reply")
# How the server calls the adapter that is being trained.
ADAPTER = "orchestra"
MOST_BYTES = 16_000_000
# Texts that torch writes side by side.
LANES = 16


@dataclass(frozen=True)
class Sampled:
    """Token ids, with the log-probabilities that another engine drew them with."""

    ids: tuple[int, ...]
    log_probabilities: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Prompt:
    """`seed` makes the text; the same for any split of the prompts over processes."""

    ids: tuple[int, ...]
    seed: int


class Sampler(Protocol):
    """Writes at temperature 1 without cuts, so that the distribution is the one that is trained."""

    def sample(self, prompts: Sequence[Prompt]) -> list[Sampled]: ...

    def take_weights(self, model: Decoder) -> None:
        """Before the rollouts of a step, by all processes."""


class SamplerFailed(Exception):
    """No usable reply after several tries. Says nothing of address, key or content."""


class TorchSampler:
    """With the trained model itself: exactly on-policy."""

    def __init__(self, model: Decoder, tokenizer: TextTokenizer, stop: str, most: int) -> None:
        self._model, self._tokenizer, self._stop, self._most = model, tokenizer, stop, most

    def take_weights(self, model: Decoder) -> None:
        """It has them."""

    def sample(self, prompts: Sequence[Prompt]) -> list[Sampled]:
        found: list[Sampled] = []
        for first in range(0, len(prompts), LANES):
            found += self._side_by_side(prompts[first : first + LANES])
        return found

    def _side_by_side(self, prompts: Sequence[Prompt]) -> list[Sampled]:
        lanes = Lanes(self._model, [prompt.ids for prompt in prompts])
        random = [np.random.default_rng(prompt.seed) for prompt in prompts]
        written: list[list[int]] = [[] for _ in prompts]
        going = set(range(len(prompts)))
        while going:
            for lane in going:
                written[lane].append(_drawn(lanes.scores[lane], random[lane]))
            going = {lane for lane in going if not self._is_whole(written[lane])}
            if going:
                lanes.read([written[lane][-1:] if lane in going else [] for lane in range(len(prompts))])
        return [Sampled(tuple(ids)) for ids in written]

    def _is_whole(self, ids: list[int]) -> bool:
        return len(ids) >= self._most or self._stop in self._tokenizer.decode(ids)


def _drawn(scores: Tensor, rng: np.random.Generator) -> int:
    chances = scores.double().softmax(-1).numpy()
    return int(rng.choice(len(chances), p=chances / chances.sum()))


@dataclass(frozen=True)
class VllmSampler:
    """A vLLM server started with `--enable-lora` and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, on the same base.

    `url` ends in `/v1`; `folder` is one that trainer and server both see.
    """

    url: str
    folder: Path
    vocabulary: int
    stop: str
    most: int
    key: str = ""
    timeout_s: float = 900.0
    tries: int = 3
    pause_s: float = 2.0
    at_once: int = 64

    def take_weights(self, model: Decoder) -> None:
        write_peft(model, self.folder / ADAPTER)
        if is_first():
            path = str((self.folder / ADAPTER).resolve())
            body = {"lora_name": ADAPTER, "lora_path": path, "load_inplace": True}
            self._ask("load_lora_adapter", body, lambda raw: raw)
        wait_for_all()

    def sample(self, prompts: Sequence[Prompt]) -> list[Sampled]:
        with ThreadPoolExecutor(self.at_once) as pool:
            return list(pool.map(self._sample_one, prompts))

    def _sample_one(self, prompt: Prompt) -> Sampled:
        body = {
            "model": ADAPTER,
            "prompt": list(prompt.ids),
            "seed": prompt.seed,
            "max_tokens": self.most,
            "temperature": 1.0,
            "top_p": 1.0,
            "top_k": 0,
            "stop": [self.stop],
            "include_stop_str_in_output": True,
            "logprobs": 1,
            "return_token_ids": True,
        }
        return self._ask("completions", body, lambda raw: _read_sampled(raw, self.vocabulary))

    def _ask(self, path: str, body: dict[str, Any], read: Callable[[bytes], Reply | None]) -> Reply:
        url = f"{self.url.rstrip('/')}/{path}"
        for attempt in range(self.tries):
            time.sleep(self.pause_s * attempt)
            try:
                status, raw = post_json(url, json.dumps(body), self.key, self.timeout_s, MOST_BYTES)
            except (OSError, http.client.HTTPException):
                continue
            reply = read(raw) if status == 200 else None
            if reply is not None:
                return reply
        raise SamplerFailed(f"{path}: no usable reply in {self.tries} tries")


def _read_sampled(raw: bytes, vocabulary: int) -> Sampled | None:
    """None where anything is amiss: a text without its exact tokens can't be learnt from."""
    try:
        choice = json.loads(raw)["choices"][0]
        ids, told = tuple(choice["token_ids"]), tuple(choice["logprobs"]["token_logprobs"])
        known = all(isinstance(token, int) and 0 <= token < vocabulary for token in ids)
        likely = all(isinstance(one, float | int) and math.isfinite(one) for one in told)
    except (ValueError, KeyError, TypeError, IndexError, OverflowError):
        return None
    return Sampled(ids, tuple(map(float, told))) if ids and known and likely and len(ids) == len(told) else None
