"""Rows in figures: what every row shows, whoever made it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .metrics import Measured, adherence, paired_interval
from .scenario import Scenario


def row_of_choices(scenario: Scenario, tasks: Sequence[int], choose: Callable[[int], str]) -> Measured:
    """One call a task, to the slot that `choose` names; as the gateway would charge it."""
    slots = [choose(task) for task in tasks]
    pairs = list(zip(tasks, slots, strict=True))
    return Measured(
        right=np.array([float(scenario.reply(task, slot, ()).right) for task, slot in pairs]),
        usd=np.array([scenario.cost_usd(task, slot) for task, slot in pairs]),
        latency_ms=np.array([float(scenario.slots[slot].latency_ms) for slot in slots]),
        calls=[(slot,) for slot in slots],
    )


def describe_row(scenario: Scenario, tasks: Sequence[int], row: Measured, strongest: Measured) -> dict[str, Any]:
    """`minus_strongest` is [points, low, high] of the paired interval; shares of served turns and runs are 0 to 1."""
    differences = row.right - strongest.right
    low, high = paired_interval(differences)
    found: dict[str, Any] = {
        "accuracy": round(float(row.right.mean()), 4),
        "expected": None if row.chances is None else round(float(row.chances.mean()), 4),
        "minus_strongest": [round(100 * one, 2) for one in (float(differences.mean()), low, high)],
        "usd_per_thousand": round(1000 * float(row.usd.mean()), 5),
        "share_of_strongest": round(float(row.usd.mean() / strongest.usd.mean()), 4),
        "adherence": _rounded(adherence(scenario, tasks, row, strongest)),
        "latency_s": None if row.latency_ms is None else round(float(row.latency_ms.mean()) / 1000, 3),
        "calls": None if row.calls is None else round(float(np.mean([len(one) for one in row.calls])), 3),
    }
    return {**found, **_served(row)}


def _served(row: Measured) -> dict[str, Any]:
    if row.served is None:
        return {}
    failures = [one.failure for one in row.served if one.failure is not None]
    return {
        "valid": round(sum(one.decided for one in row.served) / max(1, sum(one.turns for one in row.served)), 4),
        "privacy_broken": sum(one.privacy_broken for one in row.served),
        "over_budget": sum(one.over_budget for one in row.served),
        **({"failures": {name: failures.count(name) for name in set(failures)}} if failures else {}),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
