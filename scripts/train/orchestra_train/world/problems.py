"""Questions that somebody really asked, by domain of the world: read from the replay packs where they lie."""

from functools import cache

from ..replay import read_split, replay_folder

# Domains of the packs by domains of the world. Law and history are held out there: training never reads them.
RECORDED = {
    "llmrouter": {"gsm8k": "arithmetic", "human_eval": "code", "mbpp": "code"},
    "zeroeval": {"grade-school math": "arithmetic", "code output prediction": "code"},
    "mmlu_pro": {"chemistry": "chemistry", "computer science": "code", "health": "medicine"},
}
HELD_OUT = {"mmlu_pro": {"history": "history", "law": "law"}}
# Longer ones would fill the windows of small policies, and a query for a search is cut at 390.
MOST_CODE_POINTS = 380


@cache
def recorded_problems(unseen: bool) -> dict[str, list[str]]:
    """Of the train split, or for evaluation of the validation split; empty where no packs lie."""
    found: dict[str, list[str]] = {}
    for pack, domains in RECORDED.items() if replay_folder().exists() else ():
        known = {**domains, **HELD_OUT.get(pack, {})} if unseen else domains
        questions = read_split(pack, "validation" if unseen else "train")
        for prompt, domain in zip(questions.prompts, questions.domains, strict=True):
            if domain in known and len(prompt) <= MOST_CODE_POINTS:
                found.setdefault(known[str(domain)], []).append(prompt)
    return found
