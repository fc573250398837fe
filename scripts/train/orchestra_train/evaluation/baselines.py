"""Rows that need no gateway, on recorded outcomes. Fitted on train, chosen on validation, then applied once.

A method is a family of settings; each setting turns rows into (right, usd). The one that is applied is the cheapest
whose validation accuracy is not below always-strongest's, as in the packs' own baselines.
"""

from collections.abc import Sequence

import numpy as np

from .cascades import by_plan, pairs, singles, thirds
from .fitted import COST_WEIGHTS, SHRINK, Fitted, Made, Setting, picked, single
from .metrics import Measured
from .recorded import Table

NEIGHBOURS = (20, 40, 80, 160)


def baseline_rows(fitted: Fitted, rows: np.ndarray) -> dict[str, Measured]:
    """Name of the row → what it did on the rows."""
    table, strongest = fitted.table, fitted.strongest
    cheapest = int(fitted.mean_usd.argmin())
    found = {
        "random": (table.right[rows].mean(1), table.usd[rows].mean(1)),
        "cheapest": single(table, cheapest)(rows),
        "strongest": single(table, strongest)(rows),
    }
    families = {
        "kNN": neighbours(fitted),
        "one model a domain": by_domain(fitted, table.domains, taught(fitted)),
        "domain from text × cards": by_domain(fitted, fitted.told, told_by_cards(fitted)),
    }
    plans = [*singles(fitted), *pairs(fitted), *thirds(fitted)]
    families["domain from text × cascades"] = by_plan(fitted, fitted.told, plans)
    if table.answers is not None:
        families["one cascade a domain"] = by_plan(fitted, table.domains, [*singles(fitted), *pairs(fitted)])
        families["domain × cascades"] = by_plan(fitted, table.domains, plans)
    for name, family in families.items():
        found[name] = choose(fitted, family)(rows)
    found["mixture at the cost of kNN"] = mixture(fitted, rows, float(found["kNN"][1].mean()))
    found["oracle"] = oracle(table, rows)
    return {name: Measured(*made) for name, made in found.items()}


def choose(fitted: Fitted, family: Sequence[Setting]) -> Setting:
    """The cheapest setting that is not below always-strongest on validation, else the most accurate."""
    bar = fitted.table.right[fitted.validation, fitted.strongest].mean()
    tried = [(right.mean(), usd.mean(), at) for at, (right, usd) in enumerate(one(fitted.validation) for one in family)]
    good = [one for one in tried if one[0] >= bar - 1e-12]
    best = min(good, key=lambda one: one[1]) if good else max(tried, key=lambda one: (one[0], -one[1]))
    return family[best[2]]


def neighbours(fitted: Fitted) -> list[Setting]:
    table, train = fitted.table, fitted.train
    scale = fitted.mean_usd[fitted.strongest]
    known: dict[bytes, np.ndarray] = {}

    def order(rows: np.ndarray) -> np.ndarray:
        if rows.tobytes() not in known:
            pieces = [
                np.argsort(-(fitted.text[piece] @ fitted.text[train].T).toarray(), axis=1, kind="stable")[:, :160]
                for piece in np.array_split(rows, max(1, len(rows) // 500))
            ]
            known[rows.tobytes()] = np.concatenate(pieces)
        return known[rows.tobytes()]

    def setting(count: int, weight: float) -> Setting:
        def apply(rows: np.ndarray) -> Made:
            near = train[order(rows)[:, :count]]
            right = (table.right[near].sum(1) + SHRINK * fitted.mean_right) / (near.shape[1] + SHRINK)
            usd = (table.usd[near].sum(1) + SHRINK * fitted.mean_usd) / (near.shape[1] + SHRINK)
            return picked(table, rows, (right - weight * usd / scale).argmax(1))

        return apply

    return [setting(count, weight) for count in NEIGHBOURS for weight in COST_WEIGHTS]


# Chance and cost of each model by domain.
Knowledge = dict[str, Made]


def taught(fitted: Fitted) -> Knowledge:
    """From the train split."""
    table, train = fitted.table, fitted.train
    known = {}
    for name in fitted.names:
        rows = train[table.domains[train] == name]
        right = (table.right[rows].sum(0) + SHRINK * fitted.mean_right) / (len(rows) + SHRINK)
        known[name] = (right, (table.usd[rows].sum(0) + SHRINK * fitted.mean_usd) / (len(rows) + SHRINK))
    return known


def told_by_cards(fitted: Fitted) -> Knowledge:
    """From calibration items alone, shrunk to each card's own mean."""
    known = {}
    for name in fitted.names:
        chances = []
        for card in fitted.table.cards:
            one = card["by_domain"].get(name, {"n": 0, "accuracy": 0.0})
            chances.append((one["n"] * one["accuracy"] + SHRINK * card["accuracy"]) / (one["n"] + SHRINK))
        known[name] = (np.array(chances), fitted.mean_usd)
    return known


def by_domain(fitted: Fitted, domains: np.ndarray, known: Knowledge) -> list[Setting]:
    scale = fitted.mean_usd[fitted.strongest]

    def setting(weight: float) -> Setting:
        best = {name: int((right - weight * usd / scale).argmax()) for name, (right, usd) in known.items()}
        return lambda rows: picked(fitted.table, rows, np.array([best[name] for name in domains[rows]]))

    return [setting(weight) for weight in COST_WEIGHTS]


def mixture(fitted: Fitted, rows: np.ndarray, usd: float) -> Made:
    """Two single models, drawn so that their mean cost is the given one: what no router should stay below."""
    table = fitted.table
    spent, won = table.usd[rows].mean(0), fitted.mean_right
    best = (won[int(spent.argmin())], int(spent.argmin()), int(spent.argmin()), 0.0)
    for low in np.flatnonzero(spent <= usd):
        for high in np.flatnonzero(spent > usd):
            share = float((usd - spent[low]) / (spent[high] - spent[low]))
            best = max(best, (won[low] + share * (won[high] - won[low]), int(low), int(high), share))
    _, low, high, share = best
    blend = [(1 - share) * made[rows, low] + share * made[rows, high] for made in (table.right, table.usd)]
    return blend[0], blend[1]


def oracle(table: Table, rows: np.ndarray) -> Made:
    """Clairvoyant: the cheapest right model, or the cheapest of all. Takes the best of many noisy draws."""
    priced = np.where(table.right[rows] > 0, table.usd[rows], np.inf)
    models = np.where(np.isfinite(priced.min(1)), priced.argmin(1), table.usd[rows].argmin(1))
    return picked(table, rows, models)
