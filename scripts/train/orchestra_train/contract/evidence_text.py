"""Documents, code runs and attempts in the trained order and form, cut to their shares."""

from typing import Any

from .cut import Block, keep_head, keep_newest, shorten
from .evidence import Evidence
from .load import Contract, fill


def evidence_text(evidence: Evidence, limit: int, contract: Contract) -> str:
    """At most `limit` code points: attempts are cut first, then code, and documents get the rest."""
    budgets = contract["budgets"]

    def share(key: str) -> int:
        return limit * budgets[key] // budgets["promptTokens"]

    attempts = _attempts_text(evidence["attempts"], share("attemptsTokens"), contract)
    code = keep_newest(_code_blocks(evidence["codeRuns"], contract), share("codeAndAttemptsTokens") - len(attempts))
    rest = limit - len(code) - len(attempts)
    return _documents_text(evidence["documents"], rest, contract) + code + attempts


def _documents_text(documents: list[dict[str, Any]], limit: int, contract: Contract) -> str:
    labels, budgets = contract["labels"], contract["budgets"]
    blocks = [
        Block(
            fill(labels["document"], {"number": str(number)}),
            keep_head(document["text"], budgets["documentCodePoints"], labels["ellipsis"]),
            "\n\n",
        )
        for number, document in enumerate(documents, start=1)
    ]
    kept = keep_newest(blocks, limit - len(labels["documents"]))
    return kept and labels["documents"] + kept


def _code_blocks(runs: list[dict[str, Any]], contract: Contract) -> list[Block]:
    """Code and output are blocks of their own, so that a cut always leaves the fence above what it kept."""
    labels = contract["labels"]
    return [
        Block(labels[label], run[part], labels["fenceClose"])
        for run in runs
        for label, part in (("codeOpen", "code"), ("outputOpen", "output"))
    ]


def _attempts_text(attempts: list[dict[str, Any]], limit: int, contract: Contract) -> str:
    """Each attempt has an equal share: none pushes another out, since each may still be delivered."""
    labels = contract["labels"]
    share = limit // max(1, len(attempts))
    blocks = [
        Block(
            fill(labels["attempt"], {"number": _number(attempt["id"]), "slot": attempt["slot"]}),
            attempt["text"],
            "\n" + _agreement(attempt, labels["agreement"]),
        )
        for attempt in attempts
    ]
    return "".join(short.text for short in (shorten(block, share) for block in blocks) if short)


def _agreement(attempt: dict[str, Any], label: str) -> str:
    earlier = attempt.get("agreesWith")
    return fill(label, {"number": _number(attempt["id"]), "earlier": _number(earlier)}) if earlier else ""


def _number(attempt_id: str) -> str:
    return attempt_id.removeprefix("attempt-")
