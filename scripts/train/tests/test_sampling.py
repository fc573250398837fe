"""Texts from torch and from a server: the same policy, exact tokens, and nothing taken on trust.

The server here speaks vLLM's API over a second copy of the model, whose adapter it reads from the folder alone.
"""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from orchestra_train.contract.load import load_contract
from orchestra_train.gguf_file import tiny_model
from orchestra_train.grpo import GrpoSettings, train_grpo
from orchestra_train.model import Decoder, add_adapter
from orchestra_train.rollout import Rollout
from orchestra_train.sampling import Prompt, SamplerFailed, TorchSampler, VllmSampler
from orchestra_train.sft import random_turn
from orchestra_train.tokenizer import TextTokenizer, tiny_tokenizer
from orchestra_train.world.roster import WorldShape
from orchestra_train.written import IMPORTANCE_CAP, WritingPolicy, written_backward

SLOTS = load_contract("slots-2")
SHAPE = WorldShape(slots=(3, 3), helpers=False, failures=0, limited=0)
METADATA = tiny_tokenizer(["Is good at everything."] * 20, 350)
TOKENIZER = TextTokenizer(METADATA)
STOP = "</tool_call>"
# Names of transformers' Qwen3, by ours.
THEIRS = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}  # fmt: skip


def adapted_model(spread: float) -> Decoder:
    model = tiny_model("qwen3", METADATA, seed=1, width=32, feed_forward=64).model
    torch.manual_seed(2)
    add_adapter(model, rank=4, alpha=8)
    for part in model.projections().values():
        torch.nn.init.normal_(part.lora_b, std=spread)
    return model


class Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.model = adapted_model(0.0)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.broken: list[bytes | int] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def load(self, folder: Path) -> None:
        told = load_file(folder / "adapter_model.safetensors")
        for number, block in enumerate(self.model.blk):
            for theirs, own in THEIRS.items():
                stem = f"base_model.model.model.layers.{number}.{theirs}"
                part = getattr(block, own)
                part.lora_a.data, part.lora_b.data = told[f"{stem}.lora_A.weight"], told[f"{stem}.lora_B.weight"]

    @torch.no_grad()
    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt = Prompt(tuple(body["prompt"]), body["seed"])
        [sampled] = TorchSampler(self.model, TOKENIZER, body["stop"][0], body["max_tokens"]).sample([prompt])
        ids = torch.tensor([[*prompt.ids, *sampled.ids]])
        scores = self.model.logits(self.model(ids)[0, len(prompt.ids) - 1 : -1]).log_softmax(-1)
        told = scores.gather(1, torch.tensor(sampled.ids)[:, None])[:, 0].tolist()
        return {"choices": [{"token_ids": sampled.ids, "logprobs": {"token_logprobs": told}}]}


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, body))
        broken = self.server.broken.pop() if self.server.broken else None
        if isinstance(broken, int):
            return self.reply(broken, b"secret detail")
        if broken is not None:
            return self.reply(200, broken)
        if self.path == "/v1/load_lora_adapter":
            self.server.load(Path(body["lora_path"]))
            return self.reply(200, b"Success")
        return self.reply(200, json.dumps(self.server.complete(body)).encode())

    def reply(self, status: int, raw: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield serving
        serving.shutdown()


def sampler_of(server: Server, folder: Path) -> VllmSampler:
    return VllmSampler(server.url, folder, 350, STOP, most=6, timeout_s=30, tries=2, pause_s=0.0, at_once=2)


def prompts(count: int) -> list[Prompt]:
    return [Prompt(tuple(TOKENIZER.encode(f"Is good at {number}.")), seed=number) for number in range(count)]


def test_a_text_does_not_depend_on_what_is_written_beside_it() -> None:
    sampler = TorchSampler(adapted_model(0.3), TOKENIZER, STOP, most=6)
    together = sampler.sample(prompts(5))
    assert together == [found for prompt in prompts(5) for found in sampler.sample([prompt])]
    assert len({sampled.ids for sampled in together}) > 1


def test_the_server_writes_what_torch_writes_once_it_has_the_weights(server: Server, tmp_path: Path) -> None:
    model = adapted_model(0.3)
    sampler = sampler_of(server, tmp_path)
    expected = TorchSampler(model, TOKENIZER, STOP, most=6).sample(prompts(4))
    before = [sampled.ids for sampled in sampler.sample(prompts(4))]
    sampler.take_weights(model)
    after = [sampled.ids for sampled in sampler.sample(prompts(4))]
    assert before != [sampled.ids for sampled in expected]
    assert after == [sampled.ids for sampled in expected]


def test_requests_ask_for_the_trained_distribution_and_its_exact_tokens(server: Server, tmp_path: Path) -> None:
    sampler_of(server, tmp_path).sample(prompts(1))
    [(path, body)] = server.asked
    assert path == "/v1/completions"
    assert body["prompt"] == list(prompts(1)[0].ids)
    assert (body["temperature"], body["top_p"], body["top_k"]) == (1.0, 1.0, 0)
    assert body["return_token_ids"] and body["include_stop_str_in_output"]


@pytest.mark.parametrize(
    "reply",
    [
        500,
        b"no json",
        b'{"choices": [{"text": "hello"}]}',
        b'{"choices": [{"token_ids": [1, 2], "logprobs": {"token_logprobs": [-0.5]}}]}',
        b'{"choices": [{"token_ids": [1], "logprobs": {"token_logprobs": [NaN]}}]}',
        b'{"choices": [{"token_ids": [], "logprobs": {"token_logprobs": []}}]}',
        b'{"choices": [{"token_ids": [350], "logprobs": {"token_logprobs": [-0.5]}}]}',
        b'{"choices": [{"token_ids": 7, "logprobs": {"token_logprobs": [-0.5]}}]}',
    ],
)
def test_a_reply_that_cannot_be_learnt_from_is_asked_for_again_and_then_refused(
    reply: bytes | int, server: Server, tmp_path: Path
) -> None:
    sampler = sampler_of(server, tmp_path)
    server.broken = [reply]
    assert len(sampler.sample(prompts(1))) == 1
    server.broken = [reply, reply]
    with pytest.raises(SamplerFailed) as failed:
        sampler.sample(prompts(1))
    assert "secret" not in str(failed.value) and "127.0.0.1" not in str(failed.value)


def test_a_server_that_is_not_there_is_told_without_its_address(tmp_path: Path) -> None:
    sampler = VllmSampler("http://127.0.0.1:9/v1", tmp_path, 350, STOP, most=6, timeout_s=5, tries=2, pause_s=0.0)
    with pytest.raises(SamplerFailed) as failed:
        sampler.sample(prompts(1))
    assert "127.0.0.1" not in str(failed.value)


def test_texts_of_another_engine_weigh_by_how_much_likelier_they_are_here_up_to_a_bound() -> None:
    model = adapted_model(0.3)
    policy = WritingPolicy(model, TOKENIZER, SLOTS, most=4)
    turn = random_turn(np.random.default_rng(0), SHAPE, SLOTS)
    [written] = policy.write([turn], np.random.default_rng(1))
    [own] = policy.token_log_probabilities([turn], [written])

    def gradient(log_probabilities: tuple[float, ...] | None) -> torch.Tensor:
        model.zero_grad()
        text = replace(written, choice=turn.choices[0], log_probabilities=log_probabilities)
        written_backward(policy, [[Rollout(0, turn.run, [(turn, text)])]], [np.array([1.0])])
        return torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])

    same = gradient(tuple(own.tolist()))
    assert torch.allclose(same, gradient(None), atol=1e-6)
    likelier = gradient(tuple((own - np.log(1.5)).tolist()))
    assert torch.allclose(likelier, 1.5 * same, atol=1e-5)
    far = gradient(tuple((own - 9.0).tolist()))
    assert torch.allclose(far, IMPORTANCE_CAP * same, atol=1e-5)


def test_a_policy_that_thinks_is_asked_with_its_thought_still_to_come() -> None:
    turn = random_turn(np.random.default_rng(0), SHAPE, SLOTS)
    model = adapted_model(0.0)
    plain, thinking = (WritingPolicy(model, TOKENIZER, SLOTS, thinks=thinks) for thinks in (False, True))
    closed = TOKENIZER.decode(plain.tree(turn).prefix)
    assert closed == TOKENIZER.decode(thinking.tree(turn).prefix) + "<think>\n\n</think>\n\n"


def test_grpo_learns_from_a_servers_texts_and_gives_it_each_steps_weights(server: Server, tmp_path: Path) -> None:
    model = adapted_model(0.3)
    policy = WritingPolicy(model, TOKENIZER, SLOTS, sampler=sampler_of(server, tmp_path))
    settings = GrpoSettings(2, episodes=2, rollouts=2, filter="none")
    lines = train_grpo(policy, SHAPE, SLOTS, settings, tmp_path / "run").read()
    assert all(np.isfinite(value) for line in lines for value in line.values())
    assert [path for path, _ in server.asked].count("/v1/load_lora_adapter") == 2
