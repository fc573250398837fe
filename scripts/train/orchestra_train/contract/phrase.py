"""What the caller cares about as plain sentences for the policy; empty for the balanced default."""

from .cut import trim
from .load import Contract, fill

AXES = ("quality", "cost", "latency", "privacy")


def phrase_preference(weights: dict[str, float], instruction: str | None, contract: Contract) -> str:
    texts = contract["preference"]
    wish = trim(instruction or "")
    spoken = [_weight_sentences(weights, texts), fill(texts["instruction"], {"instruction": wish}) if wish else ""]
    return " ".join(sentence for sentence in spoken if sentence)


def _weight_sentences(weights: dict[str, float], texts: Contract) -> str:
    total = sum(weights[axis] for axis in AXES)
    if total == 0 or all(weights[axis] == texts["balanced"][axis] for axis in AXES):
        return ""
    share = {axis: weights[axis] / total for axis in AXES}
    large = [axis for axis in AXES if share[axis] >= texts["largeShare"]]
    medium = [axis for axis in AXES if texts["smallShare"] <= share[axis] < texts["largeShare"]]
    # Privacy has no weight unless somebody asks for it, so its absence says nothing.
    small = [axis for axis in AXES if share[axis] < texts["smallShare"] and axis != "privacy"]
    sentences = [
        fill(texts[template], {"axes": _enumerate([texts["axes"][axis] for axis in axes], texts["and"])})
        for template, axes in (("large", large), ("medium", medium), ("small", small))
        if axes
    ]
    return " ".join(sentences)


def _enumerate(names: list[str], conjunction: str) -> str:
    return conjunction.join(part for part in (", ".join(names[:-1]), names[-1]) if part)
