"""A loopback server behind every slot: replays what the scenario says, in OpenAI's wire format and in SearXNG's."""

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..contract.load import load_contract
from .scenario import Reply, Scenario


@contextmanager
def serve_experts(scenario: Scenario) -> Iterator[str]:
    """Yields the root URL: `/v1` speaks for experts, the model of a call is the slot's id; `/SLOT/search` searches."""
    server = _Experts(scenario)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Experts(ThreadingHTTPServer):
    def __init__(self, scenario: Scenario) -> None:
        super().__init__(("127.0.0.1", 0), _Call)
        self.scenario, self.asked_of = scenario, _asked_of(scenario)
        self.observations = str(load_contract("slots-2")["expert"]["observations"])


class _Call(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Experts

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        question = next(one["content"] for one in reversed(asked["messages"]) if one["role"] == "user")
        slot = asked["model"]
        if (task := self._accepted(slot, question)) is None:
            return
        _, _, appendix = question.partition(self.server.observations)
        reply = _reply(self.server.scenario, task, slot, appendix)
        if asked.get("stream"):
            self._send(_stream(slot, reply), "text/event-stream")
        else:
            self._send(json.dumps(_whole(slot, reply)).encode())

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        if (task := self._accepted(address.path.split("/")[1], parse_qs(address.query)["q"][0])) is not None:
            result = {"title": "", "url": "", "content": self.server.scenario.tasks[task].found["search"]}
            self._send(json.dumps({"results": [result]}).encode())

    def _accepted(self, slot: str, question: str) -> int | None:
        """The task, or None after a refusal."""
        task = self.server.asked_of(slot, question)
        if task is None:
            self._send(b'{"error":{"message":"never recorded"}}', status=404)
        elif slot in self.server.scenario.tasks[task].down:
            self._send(b'{"error":{"message":"busy"}}', status=429)
        else:
            return task
        return None

    def _send(self, body: bytes, kind: str = "application/json", status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        # Who is busy is so for longer than anybody waits.
        self.send_header("retry-after", "3600")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent: the gateway keeps the records."""


def _asked_of(scenario: Scenario) -> Callable[[str, str], int | None]:
    """Finds the task by slot and question; behind a question the gateway puts what it has observed, and what to do."""
    tasks_of: dict[str, list[int]] = defaultdict(list)
    for number, task in enumerate(scenario.tasks):
        for slot in task.slots:
            tasks_of[slot].append(number)
    texts = [" ".join(task.problem.split()) for task in scenario.tasks]
    exactly = {(slot, texts[number]): number for slot, numbers in tasks_of.items() for number in numbers}

    def find(slot: str, question: str) -> int | None:
        text = " ".join(question.split())
        if (slot, text) in exactly:
            return exactly[slot, text]
        fitting = [number for number in tasks_of[slot] if text.startswith(texts[number])]
        return max(fitting, key=lambda number: len(texts[number]), default=None)

    return find


def _reply(scenario: Scenario, task: int, slot: str, observed: str) -> Reply:
    """A programmer writes what the sandbox will print; others answer, better for what they were given to read."""
    found = scenario.tasks[task].found
    if scenario.slots[slot].role == "enhance_reasoning":
        return Reply(f"```python\nprint({found['enhance_reasoning']!r})\n```", True, 100, 100)
    return scenario.reply(task, slot, [role for role, text in found.items() if text in observed])


def _usage(reply: Reply) -> dict[str, int]:
    sent, written = reply.prompt_tokens, reply.output_tokens
    return {"prompt_tokens": sent, "completion_tokens": written, "total_tokens": sent + written}


def _envelope(model: str, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-recorded", "object": kind, "created": 1_700_000_000, "model": model}


def _whole(model: str, reply: Reply) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.text}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return {**_envelope(model, "chat.completion"), "choices": [choice], "usage": _usage(reply)}


def _stream(model: str, reply: Reply) -> bytes:
    envelope = _envelope(model, "chat.completion.chunk")
    deltas = [({"role": "assistant", "content": reply.text}, None), ({}, "stop")]
    choices = [[{"index": 0, "delta": delta, "finish_reason": reason}] for delta, reason in deltas]
    chunks = [{**envelope, "choices": one} for one in choices]
    chunks.append({**envelope, "choices": [], "usage": _usage(reply)})
    return ("".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n").encode()
