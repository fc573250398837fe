"""What a run has learnt so far: how observations add to it, and what they leave open. Plain JSON, as in traces."""

import re
from typing import Any

from .agree import agree
from .load import Contract

Evidence = dict[str, list[dict[str, Any]]]
Observation = dict[str, Any]


def no_evidence() -> Evidence:
    return {"documents": [], "codeRuns": [], "attempts": []}


def apply_observation(evidence: Evidence, observation: Observation) -> Evidence:
    """What the run knows after an observation. Answers and failures add nothing; the input is never changed."""
    match observation["kind"]:
        case "documents":
            return {**evidence, "documents": _with_documents(evidence["documents"], observation["documents"])}
        case "code_run":
            run = observation["run"]
            fresh = [run] if re.search(r"[^ \t\r\n]", run["output"]) else []
            return {**evidence, "codeRuns": [*evidence["codeRuns"], *fresh]}
        case "attempt":
            attempt = _attempt(evidence["attempts"], observation["slot"], observation["text"])
            return {**evidence, "attempts": [*evidence["attempts"], attempt]}
        case _:
            return evidence


def deliverable_attempts(evidence: Evidence) -> list[dict[str, Any]]:
    """Agreeing attempts are one choice, under the lowest number."""
    return [attempt for attempt in evidence["attempts"] if "agreesWith" not in attempt]


def open_choices(
    slots: list[dict[str, Any]], evidence: Evidence, contract: Contract, attempts: bool
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """What the rules leave open, each `{id, role, slot, delivers}`, and what they withdrew, with the reason."""
    budgets = contract["budgets"]
    may_attempt = attempts and len(evidence["attempts"]) < budgets["attempts"]
    calls, withdrawn = [], []
    for slot in slots:
        reason = _withdrawal(slot["role"], evidence, budgets)
        if reason is not None:
            withdrawn.append({"slot": slot["id"], "reason": reason})
            continue
        roles = ["attempt", "answer"] if slot["role"] == "answer" and may_attempt else [slot["role"]]
        calls += [{"id": slot["id"], "role": role, "slot": slot["id"], "delivers": None} for role in roles]
    deliveries = [
        {"id": attempt["id"], "role": "answer", "slot": attempt["slot"], "delivers": attempt}
        for attempt in (deliverable_attempts(evidence) if attempts else [])
    ]
    return calls + deliveries, withdrawn


def _withdrawal(role: str, evidence: Evidence, budgets: dict[str, int]) -> str | None:
    if role == "search" and evidence["documents"]:
        return "documents are there already"
    if role == "enhance_reasoning" and len(evidence["codeRuns"]) >= budgets["codeRuns"]:
        return "code ran often enough"
    return None


def _with_documents(known: list[dict[str, Any]], found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reverse rank order puts the best document last, where cuts spare it."""
    seen = {document["text"] for document in known}
    fresh = []
    for document in found:
        if document["text"] not in seen:
            seen.add(document["text"])
            fresh.append(document)
    return [*known, *reversed(fresh)]


def _attempt(known: list[dict[str, Any]], slot: str, text: str) -> dict[str, Any]:
    attempt = {"id": f"attempt-{len(known) + 1}", "slot": slot, "text": text}
    equal = next((earlier for earlier in known if agree(earlier["text"], text)), None)
    return attempt if equal is None else {**attempt, "agreesWith": equal["id"]}
