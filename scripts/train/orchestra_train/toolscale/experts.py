"""Experts to whom a policy may hand its next step: modelled, each taking it well by chance, at its own price and pace.

The function is that of the released model (ToolOrchestra, function-call mode): `call_expert`, its argument `expert`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..contract.load import Contract
from ..contract.render import describe_slots, slot_card
from .environment import Call

CALL_EXPERT = "call_expert"
# What a card says, and the chance of a right step that stands behind it.
GRADES = (("Poor", 0.3), ("Fair", 0.6), ("Good", 0.8), ("Excellent", 0.95))


@dataclass(frozen=True)
class Expert:
    """Input and output cost the same; `latency_ms` is what a step takes."""

    id: str
    grade: str
    chance: float
    nano_usd_per_million: int
    latency_ms: int


def fresh_experts(rng: np.random.Generator) -> tuple[Expert, ...]:
    """Two or three. Half of a price follows skill, so that neither the cheap nor the dear one is always right."""
    found = []
    for number in range(1, int(rng.integers(3, 5))):
        place = int(rng.integers(len(GRADES)))
        usd = 10 ** (0.5 * (place - 1.5) + rng.normal(0, 0.5))
        cents = max(1, round(usd * 100))
        latency_ms = 1000 * int(rng.integers(2, 60))
        found.append(Expert(f"expert-{number}", *GRADES[place], cents * 10**7, latency_ms))
    return tuple(found)


def expert_function(experts: Sequence[Expert], contract: Contract) -> dict[str, Any]:
    """As `tools` of a chat completion; experts are described as slots are."""
    cards = [
        slot_card(
            {
                "id": one.id,
                "quality": f"{one.grade} at working with functions.",
                "rates": {"input": one.nano_usd_per_million, "output": one.nano_usd_per_million},
                "latencyMs": one.latency_ms,
                "privacy": "any",
            },
            contract,
        )
        for one in experts
    ]
    expert = {"type": "string", "description": describe_slots(cards, contract)}
    parameters = {"type": "object", "properties": {"expert": expert}, "required": ["expert"]}
    told = {"name": CALL_EXPERT, "description": "Have an expert take the next step in your place."}
    return {"type": "function", "function": {**told, "parameters": parameters}}


def handing_over(expert: Expert) -> Call:
    return {"name": CALL_EXPERT, "arguments": {"expert": expert.id}}


def expert_usd(expert: Expert, tokens: int) -> float:
    return tokens * expert.nano_usd_per_million * 1e-15
