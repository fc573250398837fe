"""The gateway as a process of its own, with a generated configuration, and runs through it over HTTP."""

import json
import os
import re
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from tqdm import tqdm

from ..contract.load import REPOSITORY
from ..world.episode import TURNS
from .experts import serve_experts
from .scenario import PRIVACY_CLASSES, Scenario, Slot, Task

START_SECONDS, REQUEST_SECONDS, STOP_SECONDS = 300, 180, 30
# Two, so that experts and gateway need not wait for each other's sockets.
AT_ONCE = 2
# How the gateway's record says that a call wrote an answer, and that a helper found something.
WRITTEN = ("answered", "attempted")
FOUND = ("documents", "code ran")
# Whom the record names where the policy had nothing to decide.
UNASKED = ("forced", "only choice")
# On a crowded machine a program that prints a line may wait for its turn.
SANDBOX_MS = 60_000


@dataclass(frozen=True)
class PolicyFiles:
    """`estimate` where there is no model."""

    model: Path | None = None
    adapter: Path | None = None
    # As trained where nothing is said.
    contract: str | None = "beliefs-1"
    context: int = 4096

    def section(self) -> dict[str, Any]:
        if self.model is None:
            return {"backend": "estimate"}
        named = {"model": str(self.model.resolve()), "context": self.context}
        contract = {} if self.contract is None else {"contract": self.contract}
        adapter = {} if self.adapter is None else {"adapter": str(self.adapter.resolve())}
        # No fallback: a turn that the policy cannot decide shall be seen.
        return {"backend": "llama", **named, **contract, **adapter, "device": "cpu", "threads": 1, "fallback": "none"}


@dataclass(frozen=True)
class Outcome:
    """One run by the gateway's own record. `path`: role and choice of each turn; latency: what slots say they take."""

    right: bool
    cost_usd: float
    latency_ms: float
    calls: tuple[str, ...]
    path: tuple[tuple[str, str], ...]
    turns: int
    decided: int
    # Of everybody who was asked, those that failed included.
    least_privacy: float
    privacy_broken: bool
    over_budget: bool
    failure: str | None = None


@dataclass(frozen=True)
class Gateway:
    address: str
    scenario: Scenario

    def run_all(self, tasks: Sequence[int], label: str, weights: dict[str, float] | None = None) -> list[Outcome]:
        """In the order of `tasks`; `weights` stand in for each task's own preference."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = pool.map(lambda task: self.run(task, weights), tasks)
            return list(tqdm(found, total=len(tasks), desc=label, mininterval=2))

    def run(self, number: int, weights: dict[str, float] | None = None) -> Outcome:
        body = request_of(self.scenario, self.scenario.tasks[number], weights)
        try:
            answer = self._post("/v1/chat/completions", body)
        except HTTPError as error:
            return self._failed(number, error)
        record = self._get(f"/v1/orchestra/runs/{answer['x_orchestra']['run_id']}")
        return outcome_of(self.scenario, number, answer["choices"][0]["message"]["content"], record)

    def _failed(self, number: int, error: HTTPError) -> Outcome:
        """Wrong, with a turn that was not decided; whoever was asked before that was asked, and has been paid."""
        failure = json.loads(error.read() or b"{}").get("error", {}).get("code", "unknown")
        try:
            record = self._get(f"/v1/orchestra/runs/{error.headers['x-orchestra-run-id']}")
        except HTTPError:
            # Refused before there was a run.
            return Outcome(False, 0.0, 0.0, (), (), 1, 0, 1.0, False, False, failure)
        ended = _ended(self.scenario, number, record, right=False)
        return replace(ended, path=(), turns=ended.turns + 1, failure=failure)

    def beliefs(self, number: int) -> list[float]:
        """Chance of a right answer that the policy gives each candidate of a first turn."""
        task = self.scenario.tasks[number]
        decision = self._post("/v1/orchestra/decide", request_of(self.scenario, task, None))
        return [one["p_right"] for one in decision["candidates"] if "p_right" in one]

    def decide(self, number: int, slots: Sequence[str]) -> tuple[str, str]:
        """Role and slot of the first choice with these slots in place of the task's own; calls nobody."""
        task = self.scenario.tasks[number]
        body = request_of(self.scenario, task, None)
        body["preferences"]["tools"] = {"allow": [f"slot:{slot}" for slot in slots]}
        decision = self._post("/v1/orchestra/decide", body)
        return decision["role"], decision["slot"]

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._send(urllib.request.Request(self.address + path, json.dumps(body).encode()))

    def _get(self, path: str) -> dict[str, Any]:
        return self._send(urllib.request.Request(self.address + path))

    def _send(self, request: urllib.request.Request) -> dict[str, Any]:
        request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as response:
            return json.load(response)


def request_of(scenario: Scenario, task: Task, weights: dict[str, float] | None) -> dict[str, Any]:
    spoken = task.instruction != "" and weights is None
    wish = {"instruction": task.instruction} if spoken else {"weights": weights or task.weights}
    whole = len(task.slots) == len(scenario.slots)
    roster = {} if whole else {"tools": {"allow": [f"slot:{slot}" for slot in task.slots]}}
    preferences = {**wish, **roster, **task.limits, "explain": "summary"}
    return {"model": "orchestra", "messages": [{"role": "user", "content": task.problem}], "preferences": preferences}


def outcome_of(scenario: Scenario, number: int, text: str, record: dict[str, Any]) -> Outcome:
    called = [turn for turn in record["turns"] if turn["slot"] in scenario.slots]
    writer = record["model"].split("/")[-1]
    reply = scenario.reply(number, writer, _helped(called, writer))
    if reply.text != text:
        raise ValueError(f"{writer} did not write what was delivered for task {number}")
    return _ended(scenario, number, record, reply.right)


def _ended(scenario: Scenario, number: int, record: dict[str, Any], right: bool) -> Outcome:
    task, turns, cost = scenario.tasks[number], record["turns"], record["cost"]
    called = [turn for turn in turns if turn["slot"] in scenario.slots]
    cost_usd = cost["known_part"] if cost["total"] is None else cost["total"]
    classes = [PRIVACY_CLASSES.index(scenario.slots[turn["slot"]].privacy) for turn in called]
    own = [turn for turn in turns if turn["decided_by"] not in UNASKED]
    return Outcome(
        right=right,
        cost_usd=cost_usd,
        latency_ms=sum(turn["predicted"]["latency_ms"] for turn in turns),
        calls=tuple(turn["slot"] for turn in called if turn["actual"]["cost_usd"] != 0),
        path=tuple((turn["role"], turn["slot"]) for turn in turns),
        turns=len(own),
        decided=sum(turn["decided_by"] == record["policy"]["name"] for turn in own),
        least_privacy=min(classes, default=4) / 4,
        privacy_broken=min(classes, default=4) < PRIVACY_CLASSES.index(task.limits.get("privacy", "any")),
        over_budget=cost_usd > task.limits.get("max_cost_usd", float("inf")),
    )


def _helped(called: Sequence[dict[str, Any]], writer: str) -> set[str]:
    """Roles of the helpers whose findings were there when the delivered text was written."""
    wrote = max(at for at, turn in enumerate(called) if turn["slot"] == writer and turn["outcome"] in WRITTEN)
    return {turn["role"] for turn in called[:wrote] if turn["outcome"].startswith(FOUND)}


@contextmanager
def serve_gateway(scenario: Scenario, policy: PolicyFiles) -> Iterator[Gateway]:
    """Starts the gateway from its source; ends it on the way out."""
    with serve_experts(scenario) as experts, tempfile.TemporaryDirectory() as home:
        config = Path(home, "orchestra.yaml")
        # JSON is YAML.
        config.write_text(json.dumps(configuration(scenario, policy, experts)))
        environment = {**os.environ, "ORCHESTRA_HOME": home, "NO_COLOR": "1"}
        for name in ("PORT", "HOST", "ORCHESTRA_CONFIG"):
            environment.pop(name, None)
        process = subprocess.Popen(
            # From its source: a build that was left lying would be measured in place of what is there.
            ["node", "--import", "tsx", "src/main.ts", "serve", "--config", str(config)],
            cwd=REPOSITORY,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield Gateway(_address_of(process), scenario)
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _address_of(process: subprocess.Popen[str]) -> str:
    timer = threading.Timer(START_SECONDS, process.kill)
    timer.start()
    said = []
    for line in process.stdout or ():
        said.append(line)
        if found := re.search(r"ready at (http://\S+)", line):
            timer.cancel()
            # Read on, so that a full pipe never stops the gateway.
            threading.Thread(target=lambda: [None for _ in process.stdout or ()], daemon=True).start()
            return found[1]
    timer.cancel()
    raise RuntimeError("the gateway did not start:\n" + "".join(said[-20:]))


def configuration(scenario: Scenario, policy: PolicyFiles, experts: str) -> dict[str, Any]:
    classes = sorted({slot.privacy for slot in scenario.slots.values()})
    return {
        "server": {"port": 0},
        "store": "memory",
        "policy": policy.section(),
        "limits": {"max_turns": TURNS, "sandbox_wall_ms": SANDBOX_MS},
        "upstreams": {name: {"kind": "openai", "base_url": f"{experts}/v1", "privacy": name} for name in classes},
        "tools": _tools(scenario, experts),
        "slots": {slot.id: _slot_section(slot) for slot in scenario.slots.values()},
    }


def _tools(scenario: Scenario, experts: str) -> dict[str, Any]:
    """A search engine a search slot, so that each has its price; one sandbox, of this machine, for all programs."""
    tools: dict[str, Any] = {
        slot.id: {"kind": "searxng", "base_url": f"{experts}/{slot.id}", "privacy": slot.privacy, "price": _price(slot)}
        for slot in scenario.slots.values()
        if slot.role == "search"
    }
    if any(slot.role == "enhance_reasoning" for slot in scenario.slots.values()):
        # What it runs prints one line that is written here.
        tools["python"] = {"kind": "sandbox", "accept_weak_isolation": True}
    return tools


def _price(slot: Slot) -> dict[str, str]:
    """Decimal words: a float in full length has more digits than money has."""
    return {unit: f"{usd:.9f}" for unit, usd in slot.price.items()}


def _slot_section(slot: Slot) -> dict[str, Any]:
    section = {"role": slot.role, "quality": slot.quality, "skills": slot.skills, "latency_ms": slot.latency_ms}
    if slot.role == "search":
        return {**section, "tools": [slot.id]}
    expert = {
        "upstream": slot.privacy,
        "model": slot.id,
        "price": _price(slot),
        "output_tokens": slot.output_tokens,
        "context": 400_000,
        "max_output": 32_000,
    }
    return {**section, **expert, **({"sandbox": "python"} if slot.role == "enhance_reasoning" else {})}
