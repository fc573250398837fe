"""Whether two answers end in the same result. ASCII classes only, so that both languages give the same verdict."""

import re
import unicodedata

_SHORT_ANSWER_CODE_POINTS = 32
_THOUSANDS = re.compile(r"[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?")
_DECIMAL = re.compile(r"(-?)0*([0-9]+)(?:\.([0-9]*?)0*)?")
# A number with its fraction, exponent, thousands or date parts; or an option letter such as `(B)`, `**C**`, `D.`
_RESULT = re.compile(
    r"(?<![A-Za-z0-9_])-?[0-9]+(?:[.,/:^][0-9]+|[eE][-+]?[0-9]+)*"
    r"|(?<![A-Za-z0-9_'])[A-J](?=[).:*\]]|[ \t]*(?:\n|\Z))"
)


def agree(left: str, right: str) -> bool | None:
    """True or False where equality can be told, None where it cannot."""
    answers = final_answer(left), final_answer(right)
    return None if None in answers else answers[0] == answers[1]


def final_answer(text: str) -> str | None:
    """Last `\\boxed{}`, else last number or option letter, else the whole text where it is short; else None."""
    plain = re.sub(r"\r\n?", "\n", unicodedata.normalize("NFKC", text)).replace("\u2212", "-")
    boxed = _last_boxed(plain)
    if boxed is not None:
        return _canonical(boxed)
    results = _RESULT.findall(plain)
    if results:
        return _canonical(results[-1])
    return _canonical(plain) if len(plain) <= _SHORT_ANSWER_CODE_POINTS else None


def _last_boxed(text: str) -> str | None:
    open_groups: list[tuple[int, bool]] = []
    last: tuple[int, int] | None = None
    for brace in re.finditer(r"(?:\\boxed)?\{|\}", text):
        if brace[0] != "}":
            open_groups.append((brace.end(), len(brace[0]) > 1))
        elif open_groups:
            start, boxed = open_groups.pop()
            if boxed and start > (last[0] if last else -1):
                last = (start, brace.start())
    return None if last is None else text[last[0] : last[1]]


def _canonical(answer: str) -> str | None:
    """One spelling a value: no dollar signs, spaces or wrappers, numbers without separators and idle zeros."""
    bare = re.sub(r"\\text\{([^{}]*)\}", r"\1", answer)
    bare = re.sub(r"\\[dt]frac", r"\\frac", bare)
    bare = re.sub(r"\\[,;! %]|[$ \t\n*]", "", bare)
    bare = re.sub(r"\A\(([^()]*)\)\Z", r"\1", bare)
    bare = re.sub(r"[.!]+\Z", "", bare).lower()
    digits = bare.replace(",", "") if _THOUSANDS.fullmatch(bare.removeprefix("-")) else bare
    decimal = _DECIMAL.fullmatch(digits)
    if decimal is None:
        return bare or None
    sign, whole, fraction = decimal[1], decimal[2], decimal[3]
    value = f"{whole}.{fraction}" if fraction else whole
    return value if value == "0" else sign + value
