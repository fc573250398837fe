"""Wishes in words, with the grade of each axis that a perfect reader takes from them."""

from dataclasses import dataclass

from ..contract.phrase import AXES
from .wordings import Rng, worded

# Grades of the balanced preference, for what a wish does not speak of.
UNSPOKEN = {"quality": 3, "cost": 2, "latency": 2, "privacy": 0}
# And for what goes along with a wish that cares most: where only the right answer counts, price and speed hardly do,
# and secrecy is no leave to be wrong. So a wish means about what the profile of its name does.
IMPLIED = {"quality": {"cost": 1, "latency": 1}, "privacy": {"quality": 4}}
# How much a wish cares, as a grade.
STRENGTHS = {"most": 4, "some": 3, "little": 1, "none": 0}


@dataclass(frozen=True)
class Wish:
    """`grades` has one entry an axis, in the order of AXES."""

    text: str
    grades: tuple[int, ...]


def fresh_wish(rng: Rng, unseen: bool) -> Wish:
    """One to three axes are spoken of, each with its own strength."""
    spoken = [AXES[index] for index in rng.permutation(len(AXES))[: rng.choice([1, 2, 3], p=[0.5, 0.35, 0.15])]]
    grades: dict[str, int] = {}
    implied: dict[str, int] = {}
    sentences = []
    for axis in spoken:
        strength = list(STRENGTHS)[rng.choice(4, p=[0.4, 0.2, 0.2, 0.2])]
        grades[axis] = STRENGTHS[strength]
        implied |= IMPLIED.get(axis, {}) if strength == "most" else {}
        sentences.append(worded(rng, f"wish {axis} {strength}", unseen))
    if rng.random() < 0.2:
        sentences.insert(int(rng.integers(len(sentences) + 1)), worded(rng, "wish asides", unseen))
    told = UNSPOKEN | implied | grades
    return Wish(". ".join(sentences) + ".", tuple(told[axis] for axis in AXES))
