"""A replay pack through the gateway: one row a cost weight, beside the rows that need no gateway."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .baselines import baseline_rows
from .fitted import Fitted, fit
from .gates import at_least, hard_gates, list_gates, table_gate
from .gateway import Gateway, PolicyFiles, serve_gateway
from .metrics import Measured, cost_at_accuracy, measured_from
from .recorded import Table, replay_scenario
from .rows import describe_row, row_of_choices


def weights_at(cost: float) -> dict[str, float]:
    """A weight is at most 1, so beyond that it is quality that counts less."""
    return {"quality": 1 / max(1.0, cost), "cost": min(1.0, cost), "latency": 0.0, "privacy": 0.0}


def evaluate_pack(
    table: Table, rows: np.ndarray, split: str, policy: PolicyFiles, costs: Sequence[float], name: str, skills: bool
) -> dict[str, Any]:
    scenario = replay_scenario(table, rows, skills=skills)
    tasks = list(range(len(rows)))
    fitted = fit(table)
    made: dict[str, Measured] = baseline_rows(fitted, rows)
    strongest = f"answer-{fitted.strongest + 1}"
    made["strongest"] = row_of_choices(scenario, tasks, lambda _: strongest)
    with serve_gateway(scenario, policy) as gateway:
        served = {cost: _served_row(gateway, tasks, cost, name) for cost in costs}
    labels = {f"{name}, cost weight {cost:g}": row for cost, row in served.items()}
    points = [(float(row.right.mean()), float(row.usd.mean())) for row in served.values()]
    figures = _figures(fitted, made["strongest"], points, strongest, served)
    gates = hard_gates(list(served.values()))
    if table.schedule == "list":
        gates += list_gates(table.pack, made["strongest"], list(served.values()))
    elif table.schedule == "permuted":
        gates.append(table_gate(made["one model a domain"], points))
    elif table.schedule == "strongest_cheapest":
        gates.append(at_least("share of calls to the strongest", figures["share of calls to the strongest"], 0.99))
    return {
        "pack": table.pack,
        "split": split,
        "tasks": len(tasks),
        "gates": gates,
        "rows": {
            label: describe_row(scenario, tasks, row, made["strongest"]) for label, row in {**made, **labels}.items()
        },
        "figures": figures,
    }


def _served_row(gateway: Gateway, tasks: Sequence[int], cost: float, name: str) -> Measured:
    return measured_from(gateway.run_all(tasks, f"{name} at {cost:g}", weights_at(cost)))


def _figures(
    fitted: Fitted,
    strongest: Measured,
    points: Sequence[tuple[float, float]],
    slot: str,
    served: dict[float, Measured],
) -> dict[str, Any]:
    """`cost at equal accuracy` is swept on the same tasks: on test it is an optimistic bound."""
    needed = cost_at_accuracy(points, float(strongest.right.mean()))
    calls = [call for row in served.values() for one in row.calls or () for call in one]
    told = fitted.told == fitted.table.domains
    return {
        "cost at equal accuracy, of strongest's (swept)": None if needed is None else needed / strongest.usd.mean(),
        "share of calls to the strongest": round(calls.count(slot) / max(1, len(calls)), 4),
        "domain told from text, validation": round(float(told[fitted.validation].mean()), 4),
    }
