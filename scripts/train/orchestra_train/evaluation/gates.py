"""Bars that a policy has to clear: `{name, value, bar, ok}` each, as reports carry them."""

from collections.abc import Sequence
from typing import Any

from .metrics import Measured, cost_at_accuracy

# Points of accuracy below always-strongest, and share of its cost, that the world test allows.
WORLD_POINTS, WORLD_SHARE = -3.0, 0.35

# By pack: points of accuracy beside always-strongest, at a share of its cost (list prices).
REPLAY_BARS = {
    "llmrouter": ((0.0, 0.2), (2.5, 0.45)),
    "zeroeval": ((-1.0, 0.2), (1.5, 0.6)),
    "mmlu_pro": ((-0.5, 0.9),),
}

Gate = dict[str, Any]


def at_least(name: str, value: float | None, bar: float) -> Gate:
    """A value that could not be measured clears nothing."""
    return {"name": name, "value": _rounded(value), "bar": f">= {bar:g}", "ok": value is not None and value >= bar}


def at_most(name: str, value: float | None, bar: float) -> Gate:
    return {"name": name, "value": _rounded(value), "bar": f"<= {bar:g}", "ok": value is not None and value <= bar}


def hard_gates(rows: Sequence[Measured]) -> list[Gate]:
    """Of every run that the gateway made: what must hold whatever the policy is good for."""
    runs = [one for row in rows for one in row.served or ()]
    turns = sum(one.turns for one in runs)
    return [
        at_least("share of valid decisions", sum(one.decided for one in runs) / max(1, turns), 1),
        at_most("privacy violations", sum(one.privacy_broken for one in runs), 0),
        at_most("runs over budget", sum(one.over_budget for one in runs), 0),
    ]


def list_gates(pack: str, strongest: Measured, served: Sequence[Measured]) -> list[Gate]:
    """Of the rows that the gateway made, one a cost weight, the cheapest that reaches the points.

    Weights chosen on the same tasks flatter: choose on validation, and run one on test.
    """
    found = []
    for points, bar in REPLAY_BARS[pack]:
        good = [row for row in served if 100 * float((row.right - strongest.right).mean()) >= points]
        share = min((float(row.usd.mean() / strongest.usd.mean()) for row in good), default=None)
        found.append(at_most(f"cost over strongest's at {points:+g} points, best of {len(served)}", share, bar))
    return found


def table_gate(table: Measured, points: Sequence[tuple[float, float]]) -> Gate:
    """points: (accuracy, usd) of the rows that the gateway made; between them, mixtures."""
    needed = cost_at_accuracy(points, float(table.right.mean()))
    share = None if needed is None else float(needed / table.usd.mean())
    return at_most("cost over that of one model a domain, at its accuracy", share, 1)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
