"""What of a problem is embedded: twin of `gistOf` in src/router/policies/gist.ts."""

HEAD_CODE_POINTS = 400
TAIL_CODE_POINTS = 200


def gist_of(text: str) -> str:
    if len(text) <= HEAD_CODE_POINTS + TAIL_CODE_POINTS:
        return text
    return f"{text[:HEAD_CODE_POINTS]}\n{text[-TAIL_CODE_POINTS:]}"
