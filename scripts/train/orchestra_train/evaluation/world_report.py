"""The simulated world through the gateway: nothing recorded is needed, and the best feasible policy is known."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..contract.load import Contract, load_contract
from ..world.decide import best_run, utility_of
from ..world.episode import PROFILES
from .gateway import Gateway, PolicyFiles, serve_gateway
from .metrics import Measured, measured_from, spearman
from .rows import describe_row, row_of_choices
from .world import World, first_utilities, profile_weights, world_scenario

SWEEP = (0.0, 0.1, 0.2, 0.4, 0.7, 1.0)


def evaluate_world(
    count: int, policy: PolicyFiles, name: str, seed: int = 0, probes: int = 0, wishes: str = "weights"
) -> dict[str, Any]:
    """`probes`: tasks on which sweeps of weights, every profile and swapped prices are tried as well."""
    world, rules = world_scenario(count, seed, wishes=wishes), load_contract("slots-2")
    scenario, tasks = world.scenario, list(range(count))
    made = _plain_rows(world, rules)
    probed = tasks[:probes]
    with serve_gateway(scenario, policy) as gateway:
        served = measured_from(gateway.run_all(tasks, name))
        figures = _probe(gateway, world, probed, rules) if probed else {}
    rows = {
        label: describe_row(scenario, tasks, row, made["strongest"]) for label, row in {**made, name: served}.items()
    }
    rows[name]["regret"] = round(float(np.mean(_regrets(world, served, rules))), 4)
    return {"pack": "world", "split": f"seed {seed}, {wishes}", "tasks": count, "rows": rows, "figures": figures}


def _plain_rows(world: World, rules: Contract) -> dict[str, Measured]:
    scenario, tasks = world.scenario, range(len(world.episodes))
    rng = np.random.default_rng(1)

    def strongest(task: int) -> str:
        """By mean skill; what the task's limits forbid is not called."""
        skills = {slot.id: slot.skills.mean() for slot in world.episodes[task].slots}
        return max(scenario.admissible(task), key=lambda slot: skills[slot])

    return {
        "random": row_of_choices(scenario, tasks, lambda task: str(rng.choice(scenario.admissible(task)))),
        "cheapest": row_of_choices(
            scenario, tasks, lambda task: min(scenario.admissible(task), key=lambda slot: scenario.cost_usd(task, slot))
        ),
        "strongest": row_of_choices(scenario, tasks, strongest),
        "best feasible": _best_feasible(world, rules),
    }


def _best_feasible(world: World, rules: Contract) -> Measured:
    """The search under true beliefs; a limit on money holds for the slot alone, not yet for the sum of the run."""
    runs = []
    for task, episode in enumerate(world.episodes):
        seen = episode.among(world.scenario.admissible(task))
        runs.append(best_run(seen, rules, np.random.default_rng(task)))
    return Measured(
        right=np.array([float(run.correct) for run in runs]),
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
        found.append(max(worth.values()) - worth.get(outcome.first, min(worth.values())))
    return found


def _probe(gateway: Gateway, world: World, tasks: Sequence[int], rules: Contract) -> dict[str, Any]:
    swept = {
        cost: measured_from(gateway.run_all(tasks, f"cost {cost:g}", _balanced(cost))).usd.mean() for cost in SWEEP
    }
    profiles = {name: measured_from(gateway.run_all(tasks, name, profile_weights(name))) for name in PROFILES}
    table = {
        wanted: {ran: _utility(row, profile_weights(wanted), rules) for ran, row in profiles.items()}
        for wanted in PROFILES
    }
    best = sum(max(row, key=lambda name: row[name]) == wanted for wanted, row in table.items())
    return {
        "cost against its weight, Spearman": round(spearman(list(swept), list(swept.values())), 4),
        "profiles served best by themselves": f"{best} of {len(table)}",
        **_swaps(gateway, world, tasks, rules),
    }


def _balanced(cost: float) -> dict[str, float]:
    return {"quality": 0.5, "cost": cost, "latency": 0.0, "privacy": 0.0}


def _utility(row: Measured, weights: dict[str, float], rules: Contract) -> float:
    return float(
        np.mean(
            [
                utility_of(weights, one.right, one.cost_usd, one.latency_ms, one.least_privacy, rules)
                for one in row.served or ()
            ]
        )
    )


def _swaps(gateway: Gateway, world: World, tasks: Sequence[int], rules: Contract) -> dict[str, Any]:
    """Prices of the dearest and the cheapest slot are exchanged. Followed: where that changes the best choice, the

    policy's choice after it is worth at least what its old choice would be worth at the new prices.
    """
    changed = followed = 0
    for task in (one for one in tasks if not world.scenario.tasks[one].limits):
        before, after = world.episodes[task], world.swapped[task]
        ids = [[slot.id for slot in episode.slots] for episode in (before, after)]
        twin = dict(zip(*ids, strict=True))
        worth_before = first_utilities(before, ids[0], rules)
        worth_after = first_utilities(after, ids[1], rules)
        best = max(worth_before, key=lambda choice: worth_before[choice])
        if (best[0], twin[best[1]]) == max(worth_after, key=lambda choice: worth_after[choice]):
            continue
        changed += 1
        old, new = gateway.decide(task, ids[0]), gateway.decide(task, ids[1])
        followed += worth_after[new] >= worth_after[(old[0], twin[old[1]])] - 1e-9
    share = round(followed / changed, 4) if changed else None
    return {"price swaps that change the best choice": changed, "of them followed": share}
