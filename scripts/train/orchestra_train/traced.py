"""A float that remembers what it was computed from: derivatives of branching arithmetic, far cheaper than torch's.

The search makes tens of thousands of steps with single numbers and keeps few of them: slopes are followed back from a
result alone, so that what lost a comparison costs nothing further.
"""

from collections.abc import Sequence
from typing import Union

Number = Union["Traced", float]


class Traced:
    """`sources`: what it was computed from, each with the partial derivative; none for what is given."""

    __slots__ = ("sources", "value")

    def __init__(self, value: float, sources: tuple[tuple["Traced", float], ...] = ()) -> None:
        self.value = value
        self.sources = sources

    def __float__(self) -> float:
        return self.value

    def __add__(self, other: Number) -> "Traced":
        if isinstance(other, Traced):
            return Traced(self.value + other.value, ((self, 1.0), (other, 1.0)))
        # Sums begin with nothing, products with one.
        return Traced(self.value + other, ((self, 1.0),)) if other else self

    __radd__ = __add__

    def __sub__(self, other: Number) -> "Traced":
        if isinstance(other, Traced):
            return Traced(self.value - other.value, ((self, 1.0), (other, -1.0)))
        return Traced(self.value - other, ((self, 1.0),))

    def __rsub__(self, other: float) -> "Traced":
        return Traced(other - self.value, ((self, -1.0),))

    def __mul__(self, other: Number) -> "Traced":
        if isinstance(other, Traced):
            return Traced(self.value * other.value, ((self, other.value), (other, self.value)))
        return Traced(self.value * other, ((self, other),)) if other != 1 else self

    __rmul__ = __mul__

    def __truediv__(self, other: Number) -> "Traced":
        if isinstance(other, Traced):
            ratio = self.value / other.value
            return Traced(ratio, ((self, 1 / other.value), (other, -ratio / other.value)))
        return Traced(self.value / other, ((self, 1 / other),))

    def __rtruediv__(self, other: float) -> "Traced":
        ratio = other / self.value
        return Traced(ratio, ((self, -ratio / self.value),))

    def __pow__(self, exponent: float) -> "Traced":
        return Traced(self.value**exponent, ((self, exponent * self.value ** (exponent - 1)),))

    def __lt__(self, other: Number) -> bool:
        return self.value < float(other)

    def __gt__(self, other: Number) -> bool:
        return self.value > float(other)


def slopes(result: Number, given: Sequence[Traced]) -> list[float]:
    """Derivatives of the result by each of the given numbers."""
    order: list[Traced] = []
    found: dict[int, float] = {}

    def visit(number: Traced) -> None:
        """Sources come before what was computed from them."""
        if id(number) not in found:
            found[id(number)] = 0.0
            for source, _ in number.sources:
                visit(source)
            order.append(number)

    if isinstance(result, Traced):
        visit(result)
        found[id(result)] = 1.0
    for number in reversed(order):
        for source, partial in number.sources:
            found[id(source)] += partial * found[id(number)]
    return [found.get(id(number), 0.0) for number in given]
