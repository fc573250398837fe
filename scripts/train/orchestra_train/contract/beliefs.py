"""`beliefs-1`: one prefix with problem and evidence, one branch a card or a wish, answered by one of five grades."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .cut import keep_tail, prompt_budgets, trim, well_formed
from .evidence import Evidence
from .evidence_text import evidence_text
from .load import Contract, fill
from .phrase import AXES
from .render import Segment, merge_texts, trusted

LEAST_CHANCE = 0.01


def problem_prefix(
    problem: str, conversation: str, evidence: Evidence, context_tokens: int, contract: Contract
) -> list[Segment]:
    """What all branches of a turn share. Prices, ids and preferences are not in it.

    Nor are attempts: the search weighs their agreement by Bayes' rule, and a model that had read them would count it
    twice.
    """
    labels = contract["labels"]
    budgets = prompt_budgets(context_tokens, contract)
    conversation = keep_tail(conversation, budgets.conversation)
    problem = keep_tail(problem, budgets.problem)
    known = evidence_text({**evidence, "attempts": []}, budgets.prompt - len(conversation) - len(problem), contract)
    spoken = f"{labels['conversation']}{conversation}\n\n" if conversation else ""
    return _prefix(f"{spoken}{labels['problem']}{problem}" + (f"\n\n{known}" if known else ""), contract)


def card_branch(
    quality: str, role: str, contract: Contract, skills: Mapping[str, float] | None = None
) -> list[Segment]:
    """The tool's words and measured skills in words, then the question of its role; `attempt` as for `answer`.

    skills: chance of a right answer by domain.
    """
    told = {"quality": _ended(quality), "skills": _skill_words(skills or {}, contract)}
    sentence = fill(contract["sentence"], told)
    question = contract["questions"]["answer" if role == "attempt" else role]
    return _branch(fill(contract["card"], {"sentence": sentence}) + question, contract)


def described(quality: str, skills: Mapping[str, float], contract: Contract) -> str:
    """A card's words with its measured skills, for whoever keeps one text a card."""
    return _ended(quality) + _skill_words(skills, contract) if skills else quality


def _ended(quality: str) -> str:
    words = trim(quality)
    return words if words.endswith((".", "!", "?")) else f"{words}."


def _skill_words(skills: Mapping[str, float], contract: Contract) -> str:
    """Words only: a number would print differently in the gateway. Empty where nothing was measured."""
    rules = contract["skills"]
    phrases = [
        fill(rules["phrases"][sum(chance >= edge for edge in rules["edges"])], {"domain": domain})
        for domain, chance in list(skills.items())[: rules["domains"]]
    ]
    return fill(rules["sentence"], {"skills": rules["separator"].join(phrases)}) if phrases else ""


def wish_prefix(instruction: str, contract: Contract) -> list[Segment]:
    return _prefix(fill(contract["wish"], {"instruction": trim(instruction)}), contract)


def wish_branches(contract: Contract) -> list[list[Segment]]:
    """One question an axis, in the order quality, cost, latency, privacy."""
    return [_branch(contract["wishes"][axis], contract) for axis in AXES]


def grade_segments(contract: Contract) -> list[list[Segment]]:
    return [[{"kind": "text", "text": grade}] for grade in contract["grades"]]


def expected_of(probabilities: Any, values: list[float]) -> Any:
    """Mean of what the grades stand for; floats or torch scalars."""
    return sum(probability * value for probability, value in zip(probabilities, values, strict=True))


def weights_of(raw: Sequence[float]) -> dict[str, float]:
    """What a wish was read to care about, in the order of AXES, as shares of one; of nothing: quality alone."""
    total = sum(raw)
    return {
        axis: float(one / total) if total else float(axis == "quality") for axis, one in zip(AXES, raw, strict=True)
    }


def spread_over_levels(chance: Any, levels: list[float]) -> list[Any]:
    """Chances at equally likely levels of difficulty, whose mean is about the given chance; differentiable.

    Averaging over levels draws chances towards one half; widening the log-odds first gives them back.
    """
    chance = LEAST_CHANCE + (1 - 2 * LEAST_CHANCE) * chance
    widening = math.sqrt(1 + math.pi / 8 * sum(level**2 for level in levels) / len(levels))
    odds = (chance / (1 - chance)) ** widening
    return [odds / (odds + math.exp(-level)) for level in levels]


def _prefix(text: str, contract: Contract) -> list[Segment]:
    chat = contract["chat"]
    return merge_texts(
        [
            *trusted(chat["systemOpen"] + contract["system"], chat["controlTags"]),
            *trusted(chat["turnClose"] + chat["userOpen"], chat["controlTags"]),
            {"kind": "text", "text": well_formed(text)},
        ]
    )


def _branch(text: str, contract: Contract) -> list[Segment]:
    chat = contract["chat"]
    closing = trusted(chat["turnClose"] + chat["assistantOpen"], chat["controlTags"])
    return merge_texts([{"kind": "text", "text": well_formed(text)}, *closing])
