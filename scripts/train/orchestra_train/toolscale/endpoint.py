"""Chat completions of any OpenAI-compatible server, paid from a budget; replies are kept, so a killed run goes on."""

import hashlib
import http.client
import json
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..post import post_json
from .dataset import read_whole_lines

Message = dict[str, Any]
MOST_BYTES = 4_000_000


class BudgetSpent(Exception):
    """The next call could cost more than is left."""


class EndpointFailed(Exception):
    """No usable reply after several tries. Says nothing of address, key or content."""


@dataclass
class Endpoint:
    """Prices in USD per million tokens; money is counted in whole nano-dollars, upwards."""

    url: str
    model: str
    log: Path
    max_cost_usd: float
    price_in: float
    price_out: float
    key: str = ""
    timeout_s: float = 120.0
    tries: int = 3
    pause_s: float = 2.0
    most_tokens: int = 4096
    spent_nano: int = 0
    _known: dict[str, Message] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        for line in read_whole_lines(self.log):
            self.spent_nano += line["cost_nano"]
            if "reply" in line:
                self._known[line["id"]] = line["reply"]

    def ask(self, messages: Sequence[Message], sample: int = 0, tools: Sequence[Any] = ()) -> Message:
        """The assistant's message. The same question and sample is asked once in the life of the log.

        @raises BudgetSpent, EndpointFailed
        """
        body: dict[str, Any] = {"model": self.model, "messages": list(messages), "max_tokens": self.most_tokens}
        if tools:
            body["tools"] = list(tools)
        id = hashlib.sha256(json.dumps([body, sample], sort_keys=True).encode()).hexdigest()
        if id in self._known:
            return self._known[id]
        text = json.dumps(body)
        for attempt in range(self.tries):
            if attempt:
                time.sleep(self.pause_s * attempt)
            # No tokenizer makes more tokens than bytes.
            bound = self._cost(len(text.encode()), self.most_tokens)
            if self.spent_nano + bound > int(self.max_cost_usd * 1e9):
                raise BudgetSpent
            reply, cost = self._once(text, bound)
            self.spent_nano += cost
            self._keep({"id": id, "cost_nano": cost} | ({"reply": reply} if reply else {}))
            if reply:
                self._known[id] = reply
                return reply
        raise EndpointFailed(f"no usable reply in {self.tries} tries")

    def _once(self, text: str, bound: int) -> tuple[Message | None, int]:
        """A reply and what it cost; refusals and names of no host are free, and what broke off is booked in full."""
        try:
            url = f"{self.url.rstrip('/')}/chat/completions"
            status, raw = post_json(url, text, self.key, self.timeout_s, MOST_BYTES)
        except (ConnectionRefusedError, socket.gaierror):
            return None, 0
        except (OSError, http.client.HTTPException):
            return None, bound
        if status != 200:
            return None, 0
        try:
            answer = json.loads(raw)
            message = answer["choices"][0]["message"]
            kept = {"role": "assistant", "content": str(message.get("content") or "")}
            if message.get("tool_calls"):
                kept["tool_calls"] = message["tool_calls"]
            usage = answer.get("usage") or {}
            cost = self._cost(int(usage["prompt_tokens"]), int(usage["completion_tokens"])) if usage else bound
            return kept, max(0, cost)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError):
            return None, bound

    def _cost(self, tokens_in: int, tokens_out: int) -> int:
        return -int(-(tokens_in * self.price_in + tokens_out * self.price_out) * 1000 // 1)

    def _keep(self, line: dict[str, Any]) -> None:
        with self.log.open("a") as lines:
            lines.write(json.dumps(line) + "\n")
