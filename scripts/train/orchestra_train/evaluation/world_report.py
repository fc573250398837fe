"""The simulated world through the gateway: nothing recorded is needed, and the best feasible policy is known."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..contract.load import Contract, load_contract
from ..world.decide import best_run, chance_of
from .gates import Gate, at_least, hard_gates
from .gateway import PolicyFiles, serve_gateway
from .metrics import Measured, measured_from
from .rows import describe_row, row_of_choices
from .world import World, first_utilities, with_chances, world_scenario
from .world_probes import Probes, balanced, mean_utility, probe, probe_gates, probe_table, sweep_table


def evaluate_world(
    count: int, policy: PolicyFiles, name: str, seed: int = 0, probes: int = 0, wishes: str = "weights"
) -> dict[str, Any]:
    """`probes`: tasks on which sweeps of weights, every profile and swapped prices are tried as well.

    Beside the rows stand the gates of the world test, those of the probes where there are any. A model has
    `estimate` beside it, which it has to be ahead of where wishes are words.
    """
    world, rules = world_scenario(count, seed, wishes=wishes), load_contract("slots-2")
    scenario, tasks = world.scenario, list(range(count))
    made = _plain_rows(world, rules)
    probed: Probes | None = None
    with serve_gateway(scenario, policy) as gateway:
        served = {name: with_chances(world, tasks, measured_from(gateway.run_all(tasks, name)), rules)}
        if probes > 0:
            probed = probe(gateway, world, tasks[:probes], rules)
    gates = hard_gates([*served.values(), *(probed.rows() if probed else ())])
    gates += probe_gates(probed, made["strongest"], rules) if probed else []
    if policy.model is not None:
        with serve_gateway(scenario, PolicyFiles()) as gateway:
            row = measured_from(gateway.run_all(tasks, "estimate"))
            served["estimate"] = with_chances(world, tasks, row, rules)
        gates += _ahead(world, served[name], served["estimate"], rules) if wishes == "words" else []
    rows = {label: describe_row(scenario, tasks, row, made["strongest"]) for label, row in {**made, **served}.items()}
    for label, row in served.items():
        rows[label]["regret"] = round(float(np.mean(_regrets(world, row, rules))), 4)
    figures = _figures(probed, name, world, made["strongest"], rules) if probed else {}
    split = f"seed {seed}, {wishes}"
    return {"pack": "world", "split": split, "tasks": count, "gates": gates, "rows": rows, "figures": figures}


def _figures(probed: Probes, name: str, world: World, strongest: Measured, rules: Contract) -> dict[str, Any]:
    best = {cost: _best_feasible(world, rules, probed.tasks, balanced(cost)) for cost in probed.swept}
    sweeps = {name: probed.swept, "best feasible": best}
    return {
        **probe_table(probed, rules),
        "[points beside strongest's, share of its cost] by cost weight": {
            label: sweep_table(swept, strongest) for label, swept in sweeps.items()
        },
    }


def _ahead(world: World, served: Measured, estimate: Measured, rules: Contract) -> list[Gate]:
    weights = [episode.weights for episode in world.episodes]
    utilities = [mean_utility(row, weights, rules) for row in (served, estimate)]
    return [at_least("mean utility minus that of estimate", utilities[0] - utilities[1], 0)]


def _plain_rows(world: World, rules: Contract) -> dict[str, Measured]:
    scenario, tasks = world.scenario, range(len(world.episodes))
    rng = np.random.default_rng(1)

    def strongest(task: int) -> str:
        """By mean skill. What the limits forbid is not called, and for who fails the next one answers."""
        skills = {slot.id: slot.skills.mean() for slot in world.episodes[task].slots}
        return max(scenario.answering(task), key=lambda slot: skills[slot])

    rows = {
        "random": row_of_choices(scenario, tasks, lambda task: str(rng.choice(scenario.answering(task)))),
        "cheapest": row_of_choices(
            scenario, tasks, lambda task: min(scenario.answering(task), key=lambda slot: scenario.cost_usd(task, slot))
        ),
        "strongest": row_of_choices(scenario, tasks, strongest),
    }
    known = {name: with_chances(world, tasks, row, rules) for name, row in rows.items()}
    return {**known, "best feasible": _best_feasible(world, rules, tasks)}


def _best_feasible(
    world: World, rules: Contract, tasks: Sequence[int], weights: dict[str, float] | None = None
) -> Measured:
    """The search under true beliefs; a limit on money holds for the slot alone, not yet for the sum of the run."""
    runs = []
    for task in tasks:
        seen = world.episodes[task].among(world.scenario.admissible(task))
        seen = replace(seen, weights=weights) if weights else seen
        runs.append(best_run(seen, rules, np.random.default_rng(task)))
    return Measured(
        right=np.array([float(run.correct) for run in runs]),
        chances=np.array([chance_of(run.episode, run.path, rules) for run in runs]),
        usd=np.array([run.cost_usd for run in runs]),
        latency_ms=np.array([run.latency_ms for run in runs]),
        calls=[tuple(run.episode.slots[number].id for number in run.calls) for run in runs],
    )


def _regrets(world: World, served: Measured, rules: Contract) -> list[float]:
    """What the first choice gave away by the known world, which no luck blurs."""
    found = []
    for task, outcome in enumerate(served.served or ()):
        worth = first_utilities(world.episodes[task], world.scenario.admissible(task), rules)
        # A slot beyond the task's money can be tried where only the sum of the run is limited; it is worth the least.
        found.append(max(worth.values()) - worth.get(outcome.path[0] if outcome.path else None, min(worth.values())))
    return found
