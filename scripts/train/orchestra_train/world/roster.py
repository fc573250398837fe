"""Fresh tools for one episode: hidden skills, prices that only partly follow them, cards of varying truth."""

from dataclasses import dataclass, field, replace

import numpy as np

from .texts import DOMAINS, Rng, card_text

NAMES = tuple(DOMAINS)
PRIVACY_CLASSES = ("any", "no_training", "zdr", "self_hosted", "local")
# Log-odds by recorded outcomes (train splits of the replay packs): models differ by 0.55 to 0.97, one model's domains
# by 0.2 to 0.96, items by about 1.3 beyond that.
MODEL_SPREAD = 0.9
DOMAIN_SPREAD = 0.5
LEVELS = (-1.3, 1.3)
GRADE_EDGES = np.array([0.2, 0.4, 0.6, 0.8])


@dataclass(frozen=True)
class WorldShape:
    """What varies between a smoke test and the whole world."""

    slots: tuple[int, int] = (3, 10)
    specialists: bool = True
    card_noise: float = 0.4
    named_domains: tuple[int, int] = (0, 5)
    helpers: bool = True
    limited: float = 0.2
    failures: float = 0.03
    wishes_in_words: bool = True
    # Of answerers whose named domains are told as measured chances, and of problems that somebody really asked.
    measured: float = 0.0
    recorded: float = 0.0
    # For ablations: a seed gives every episode the same tools; and prices that only follow skill are always the same.
    same_tools: int | None = None
    listed_prices: bool = False


WHOLE_WORLD = WorldShape(measured=0.2, recorded=0.5)


@dataclass(frozen=True)
class WorldSlot:
    """`skills` [domains] are hidden log-odds, `gains` [domains] what a helper multiplies chances by.

    `quality` and `measured` (chance by domain) are what its card shows of them.
    """

    id: str
    role: str
    quality: str
    skills: np.ndarray
    gains: np.ndarray
    cost_usd: float
    latency_ms: float
    privacy: str
    measured: dict[str, float] = field(default_factory=dict)


def fresh_roster(rng: Rng, shape: WorldShape, unseen: bool) -> list[WorldSlot]:
    if shape.same_tools is not None:
        rng = np.random.default_rng(shape.same_tools)
    count = int(rng.integers(shape.slots[0], shape.slots[1] + 1))
    helpers = int(rng.integers(0, min(3, count - 1))) if shape.helpers else 0
    answers = [_answerer(rng, shape, number, unseen) for number in range(1, count - helpers + 1)]
    if len(answers) > 3 and rng.random() < 0.3:
        answers[-1] = _near_duplicate(rng, answers[0], answers[-1].id)
    roles = ["search", "enhance_reasoning"]
    slots = [*answers, *(_helper(rng, roles[number], number) for number in range(helpers))]
    if shape.listed_prices:
        slots = _at_listed_prices(slots)
    return _within_limits(rng, slots) if rng.random() < shape.limited else slots


def _at_listed_prices(slots: list[WorldSlot]) -> list[WorldSlot]:
    """Twice the price for each rank of skill."""
    ranks = np.argsort(np.argsort([slot.skills.mean() for slot in slots]))
    return [replace(slot, cost_usd=0.002 * 2.0 ** int(rank)) for slot, rank in zip(slots, ranks, strict=True)]


def _within_limits(rng: Rng, slots: list[WorldSlot]) -> list[WorldSlot]:
    """Hard limits never reach the policy: they take tools away. Somebody who can answer always stays."""
    least = int(rng.integers(1, 4))
    dearest = float(np.quantile([slot.cost_usd for slot in slots], rng.uniform(0.5, 1)))
    kept = [slot for slot in slots if slot.cost_usd <= dearest and PRIVACY_CLASSES.index(slot.privacy) >= least]
    return kept if any(slot.role == "answer" for slot in kept) else slots


def _answerer(rng: Rng, shape: WorldShape, number: int, unseen: bool) -> WorldSlot:
    general = rng.normal(0.5, MODEL_SPREAD)
    skills = general + rng.normal(0, DOMAIN_SPREAD, len(NAMES)) * shape.specialists
    if shape.specialists and rng.random() < 0.4:
        field = rng.permutation(len(NAMES))[: rng.integers(1, 3)]
        skills -= 0.8
        skills[field] += 2.3
    shown = skills + rng.normal(0, shape.card_noise, len(NAMES))
    named = rng.permutation(len(NAMES))[: rng.integers(shape.named_domains[0], shape.named_domains[1] + 1)]
    told = {NAMES[domain]: chance_at(shown[domain]) for domain in named}
    by_number = shape.measured > 0 and rng.random() < shape.measured
    grades = {} if by_number else {name: grade_of(chance) for name, chance in told.items()}
    quality = card_text(rng, grades, grade_of(chance_at(float(shown.mean()))), unseen)
    measured = {name: round(chance, 2) for name, chance in told.items()} if by_number else {}
    # Prices span two orders of magnitude and follow skill only in part: some tools are dominated.
    cost = 0.002 * np.exp(0.8 * general + rng.normal(0, 1.1))
    latency = 4000 * np.exp(0.3 * general + rng.normal(0, 0.7))
    privacy = PRIVACY_CLASSES[rng.integers(len(PRIVACY_CLASSES))]
    slot_id, nothing = f"answer-{number}", np.ones(len(NAMES))
    return WorldSlot(slot_id, "answer", quality, skills, nothing, float(cost), float(latency), privacy, measured)


def _near_duplicate(rng: Rng, twin: WorldSlot, slot_id: str) -> WorldSlot:
    factor = float(np.exp(rng.normal(0, 0.7)))
    skills = twin.skills + rng.normal(0, 0.1, len(NAMES))
    return replace(twin, id=slot_id, skills=skills, cost_usd=twin.cost_usd * factor)


def _helper(rng: Rng, role: str, number: int) -> WorldSlot:
    helped = {"search": ("law", "medicine", "history"), "enhance_reasoning": ("arithmetic", "code", "chemistry")}[role]
    strength = rng.uniform(1.1, 1.9)
    gains = np.array([strength if name in helped else 1.0 for name in NAMES])
    words = "Finds documents" if role == "search" else "Writes and runs Python"
    quality = f"{words}; {'very useful' if strength > 1.5 else 'of some use'} for {', '.join(helped)}."
    cost, latency = float(rng.uniform(2e-4, 3e-3)), float(rng.uniform(800, 6000))
    # A query that no writer has made harmless goes to one's own search engine only.
    privacy = {"search": "self_hosted", "enhance_reasoning": "no_training"}[role]
    return WorldSlot(f"{role}-{number + 1}", role, quality, np.zeros(len(NAMES)), gains, cost, latency, privacy)


def chance_at(skill: float) -> float:
    """Mean chance of a right answer over both levels of difficulty."""
    return float(np.mean([1 / (1 + np.exp(-(skill + level))) for level in LEVELS]))


def grade_of(chance: float) -> int:
    """0 (worst) to 4, a fifth of the scale each."""
    return int(np.searchsorted(GRADE_EDGES, chance, side="right"))
