"""A loopback server behind every slot: replays what the scenario says, in OpenAI's wire format."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ..contract.load import load_contract
from .scenario import Reply, Scenario


@contextmanager
def serve_experts(scenario: Scenario) -> Iterator[str]:
    """Yields the base URL; the model of a call is the slot's id."""
    # Behind the client's question the gateway puts what it has observed.
    appendix = "\n\n" + load_contract("slots-2")["expert"]["observations"]
    known = {(slot, task.problem): at for at, task in enumerate(scenario.tasks) for slot in task.slots}

    class Expert(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            question = next(one["content"] for one in reversed(asked["messages"]) if one["role"] == "user")
            task = known.get((asked["model"], question.split(appendix)[0]))
            if task is None:
                self._send(b'{"error":{"message":"never recorded"}}', "application/json", 404)
                return
            reply = scenario.reply(task, asked["model"])
            if asked.get("stream"):
                self._send(_stream(asked["model"], reply), "text/event-stream")
            else:
                self._send(json.dumps(_whole(asked["model"], reply)).encode(), "application/json")

        def _send(self, body: bytes, kind: str, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Silent: the gateway keeps the records."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Expert)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


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
