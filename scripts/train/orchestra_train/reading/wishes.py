"""Wishes in words, with the grade of each axis that a perfect reader takes from them."""

from dataclasses import dataclass

from ..contract.phrase import AXES
from .cards import Rng, pick

# Grades of the balanced preference, for what a wish does not speak of.
UNSPOKEN = {"quality": 3, "cost": 2, "latency": 2, "privacy": 0}
# How much a wish cares, as a grade.
STRENGTHS = {"most": 4, "some": 3, "little": 1, "none": 0}

WISHES = {
    "quality": {
        "most": "It must be right; Accuracy above all; Get this right whatever it takes; No mistakes please; "
        "I need the most reliable answer; Correctness is everything "
        "| Mistakes would be terrible; Be absolutely certain; I can't afford an error here",
        "some": "Try to be correct; A good answer would be nice; Reasonable quality is fine "
        "| Be fairly careful; I would like it to be right",
        "little": "A rough answer will do; A guess is nearly good enough; Quality is secondary "
        "| An approximate reply suffices; Don't be too careful about it",
        "none": "I don't care whether it is right; Any answer at all will do; Just say something "
        "| It need not be true; Wrong is fine as well",
    },
    "cost": {
        "most": "Keep it as cheap as possible; Spend as little as you can; Price matters most; Money is very "
        "tight; Use the cheapest way there is "
        "| Our budget is tiny; Every cent counts; I am broke",
        "some": "Don't spend too much; Keep an eye on the price; Not too expensive please "
        "| Be thrifty; Mind what it costs",
        "little": "The price hardly matters; Cost is a minor point; Don't worry much about money "
        "| We can pay a fair bit; Expense is of small concern",
        "none": "Money is no object; Cost does not matter; Spend whatever you need; Ignore the price "
        "| The bill is irrelevant; Price plays no role",
    },
    "latency": {
        "most": "I am in a great hurry; Answer at once; Speed is what matters most; As fast as possible; I "
        "need it right now "
        "| There is no time to lose; Be quick as lightning; Every second counts",
        "some": "Answer soon; Rather quickly please; Don't take too long | Be brisk; I'd like it before long",
        "little": "It can take a while; Speed is a minor point; No great hurry | Waiting a bit is fine; Little urgency",
        "none": "Take all the time you need; Time does not matter; I can wait for hours "
        "| Tomorrow is early enough; Speed plays no role",
    },
    "privacy": {
        "most": "This is strictly confidential; Keep the data in house; Nothing may leave our machines; "
        "Privacy matters most; These are secret patient files "
        "| No outsider may ever see this; Only our own servers, please; Treat it as top secret",
        "some": "Prefer a private place; Be discreet; Better not share this widely "
        "| I'd rather keep it to ourselves; Somewhat sensitive",
        "little": "Privacy is a minor point; It is hardly sensitive | Not much of a secret; Barely private",
        "none": "This is public anyway; Anybody may read this; Privacy does not matter "
        "| It is on our website already; No secrets here",
    },
}
ASIDES = (
    "Answer in French; Use short sentences; Give an example; Write for a child; Show your steps; Be "
    "friendly "
    "| Reply as a list; Cite a source; End with a joke"
)


@dataclass(frozen=True)
class Wish:
    """`grades` has one entry an axis, in the order of AXES."""

    text: str
    grades: tuple[int, ...]


def fresh_wish(rng: Rng, unseen: bool) -> Wish:
    """One to three axes are spoken of, each with its own strength."""
    spoken = [AXES[index] for index in rng.permutation(len(AXES))[: rng.choice([1, 2, 3], p=[0.5, 0.35, 0.15])]]
    grades = dict(UNSPOKEN)
    sentences = []
    for axis in spoken:
        strength = list(STRENGTHS)[rng.choice(4, p=[0.4, 0.2, 0.2, 0.2])]
        grades[axis] = STRENGTHS[strength]
        sentences.append(pick(rng, WISHES[axis][strength], unseen))
    if rng.random() < 0.2:
        sentences.insert(int(rng.integers(len(sentences) + 1)), pick(rng, ASIDES, unseen))
    return Wish(". ".join(sentences) + ".", tuple(grades[axis] for axis in AXES))
