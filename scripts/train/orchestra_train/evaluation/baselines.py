"""Rows that need no gateway, on recorded outcomes. Fitted on train, chosen on validation, then applied once.

A method is a family of settings; each setting turns rows into (right, usd). The one that is applied is the cheapest
whose validation accuracy is not below always-strongest's, as in the packs' own baselines.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from .metrics import Measured
from .recorded import Table

Made = tuple[np.ndarray, np.ndarray]
Setting = Callable[[np.ndarray], Made]
SHRINK = 10.0
NEIGHBOURS = (20, 40, 80, 160)
COST_WEIGHTS = np.concatenate([[0.0], np.logspace(-3, 1.5, 40)])


@dataclass(frozen=True)
class Fitted:
    """What all methods share. mean_right, mean_usd: [models] on train; `text` [items, words]."""

    table: Table
    train: np.ndarray
    validation: np.ndarray
    strongest: int
    mean_right: np.ndarray
    mean_usd: np.ndarray
    names: list[str]
    # What the text of each item says of its domain. [items]
    told: np.ndarray
    text: object


def fit(table: Table) -> Fitted:
    train, validation = table.rows("train"), table.rows("validation")
    mean_right = table.right[train].mean(0)
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2, max_features=60_000)
    prompts = [item["prompt"] for item in table.items]
    vectorizer.fit([prompts[row] for row in train])
    text = vectorizer.transform(prompts)
    teller = LogisticRegression(C=30.0, max_iter=300).fit(text[train], table.domains[train])
    return Fitted(
        table,
        train,
        validation,
        int(mean_right.argmax()),
        mean_right,
        table.usd[train].mean(0),
        sorted(set(table.domains)),
        teller.predict(text),
        text,
    )


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
    if table.answers is not None:
        families["domain from text × cascades"] = cascades(fitted, fitted.told)
        families["one cascade a domain"] = cascades(fitted, table.domains)
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


def single(table: Table, model: int) -> Setting:
    return lambda rows: (table.right[rows, model], table.usd[rows, model])


def picked(table: Table, rows: np.ndarray, models: np.ndarray) -> Made:
    return table.right[rows, models], table.usd[rows, models]


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


def cascades(fitted: Fitted, domains: np.ndarray) -> list[Setting]:
    """A domain's single model, or two cheap answers that are accepted where they agree, else the strongest."""
    table, train, best = fitted.table, fitted.train, fitted.strongest
    count, scale = len(table.models), fitted.mean_usd[best]
    pairs = [
        (left, right)
        for left in range(count)
        for right in range(left + 1, count)
        if best not in (left, right) and fitted.mean_usd[left] + fitted.mean_usd[right] < fitted.mean_usd[best]
    ]
    plans: list[Setting] = [*(single(table, model) for model in range(count)), *(_cascade(fitted, *p) for p in pairs)]
    worth = {}
    for name in fitted.names:
        rows = train[domains[train] == name]
        worth[name] = np.array([[made.mean() for made in plan(rows)] for plan in plans]) if len(rows) else None

    def setting(weight: float) -> Setting:
        chosen = {
            name: plans[best if one is None else int((one[:, 0] - weight * one[:, 1] / scale).argmax())]
            for name, one in worth.items()
        }

        def apply(rows: np.ndarray) -> Made:
            right, usd = np.zeros(len(rows)), np.zeros(len(rows))
            for name, plan in chosen.items():
                here = np.flatnonzero(domains[rows] == name)
                right[here], usd[here] = plan(rows[here])
            return right, usd

        return apply

    return [setting(weight) for weight in COST_WEIGHTS]


def _cascade(fitted: Fitted, left: int, right: int) -> Setting:
    table, best = fitted.table, fitted.strongest

    def apply(rows: np.ndarray) -> Made:
        first, second = table.answers[rows, left], table.answers[rows, right]
        agree = (first == second) & (first >= 0)
        won = np.where(agree, table.right[rows, left], table.right[rows, best])
        usd = table.usd[rows, left] + table.usd[rows, right] + np.where(agree, 0.0, table.usd[rows, best])
        return won, usd

    return apply


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
