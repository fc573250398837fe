"""Plans of one or several calls, and the best for each domain: accept where two cheap answers agree, else go on."""

from collections.abc import Iterator, Sequence

import numpy as np

from .fitted import COST_WEIGHTS, Fitted, Made, Setting, single


def singles(fitted: Fitted) -> list[Setting]:
    return [single(fitted.table, model) for model in range(len(fitted.table.models))]


def pairs(fitted: Fitted) -> list[Setting]:
    """Two that are together cheaper than the strongest; where they differ, the strongest."""
    return [_decided(fitted, left, right, fitted.strongest) for left, right in _cheap_pairs(fitted)]


def thirds(fitted: Fitted) -> list[Setting]:
    """A third, still cheaper with them than the strongest: where two differ it decides, or makes two of three.

    Where all three differ, two of three ask the strongest.
    """
    plans = []
    for left, right in _cheap_pairs(fitted):
        spent = fitted.mean_usd[left] + fitted.mean_usd[right]
        for third in np.flatnonzero(fitted.mean_usd + spent < fitted.mean_usd[fitted.strongest]):
            if third not in (left, right, fitted.strongest):
                plans += [_decided(fitted, left, right, int(third)), _two_of_three(fitted, left, right, int(third))]
    return plans


def by_plan(fitted: Fitted, domains: np.ndarray, plans: Sequence[Setting]) -> list[Setting]:
    """A setting a cost weight: the plan for each domain that was worth most on train."""
    train, best = fitted.train, fitted.strongest
    scale = fitted.mean_usd[best]
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


def _cheap_pairs(fitted: Fitted) -> Iterator[tuple[int, int]]:
    """None where no answers were recorded: nothing can be compared."""
    count, best = len(fitted.table.models), fitted.strongest
    for left in range(count if fitted.table.answers is not None else 0):
        for right in range(left + 1, count):
            if best not in (left, right) and fitted.mean_usd[left] + fitted.mean_usd[right] < fitted.mean_usd[best]:
                yield left, right


def _decided(fitted: Fitted, left: int, right: int, judge: int) -> Setting:
    table = fitted.table

    def apply(rows: np.ndarray) -> Made:
        agree = _agree(fitted, rows, left, right)
        won = np.where(agree, table.right[rows, left], table.right[rows, judge])
        usd = table.usd[rows, left] + table.usd[rows, right] + np.where(agree, 0.0, table.usd[rows, judge])
        return won, usd

    return apply


def _two_of_three(fitted: Fitted, left: int, right: int, third: int) -> Setting:
    table, best = fitted.table, fitted.strongest

    def apply(rows: np.ndarray) -> Made:
        agree = _agree(fitted, rows, left, right)
        with_left, with_right = _agree(fitted, rows, left, third), _agree(fitted, rows, right, third)
        majority = np.where(agree | with_left, table.right[rows, left], table.right[rows, right])
        lost = ~(agree | with_left | with_right)
        won = np.where(lost, table.right[rows, best], majority)
        usd = table.usd[rows, left] + table.usd[rows, right]
        usd = usd + np.where(agree, 0.0, table.usd[rows, third]) + np.where(lost, table.usd[rows, best], 0.0)
        return won, usd

    return apply


def _agree(fitted: Fitted, rows: np.ndarray, left: int, right: int) -> np.ndarray:
    first, second = fitted.table.answers[rows, left], fitted.table.answers[rows, right]
    return (first == second) & (first >= 0)
