"""Problems with their subject: the world's own tasks and recorded questions, read where they lie."""

from dataclasses import dataclass
from functools import cache

from ..replay import read_split, replay_folder
from .subjects import HIDDEN, SUBJECTS
from .wordings import Rng, choose

# Domains of the replay packs by the subjects of the cards. The packs' held-out domains are not read in training.
RECORDED = {
    "mmlu_pro": {
        "biology": "biology", "business": "marketing", "chemistry": "chemistry", "economics": "economics",
        "health": "medicine", "math": "algebra", "philosophy": "philosophy", "physics": "physics",
    },
    "zeroeval": {
        "code output prediction": "tracing", "competition math": "algebra", "grade-school math": "arithmetic",
    },
    "llmrouter": {
        "arc_challenge": "school science", "commonsense_qa": "common sense", "gsm8k": "arithmetic", "math": "algebra",
        "human_eval": "programming", "mbpp": "programming", "natural_qa": "trivia", "openbook_qa": "school science",
        "trivia_qa": "trivia", "agentverse-logicgrid": "logic",
    },
}  # fmt: skip
MOST_CODE_POINTS = 360


@dataclass(frozen=True)
class ProblemSource:
    """Recorded questions by subject, of one split; the world's own tasks stand beside them."""

    recorded: dict[str, list[str]]
    unseen: bool

    def fresh(self, rng: Rng, subject: str) -> str:
        known = self.recorded.get(subject)
        return choose(rng, known) if known and rng.random() < 0.5 else task_text(rng, subject, self.unseen)


def task_text(rng: Rng, subject: str, unseen: bool) -> str:
    return choose(rng, SUBJECTS[subject].tasks[unseen]).format(a=rng.integers(2, 99), b=rng.integers(11, 99))


@cache
def problem_source(unseen: bool) -> ProblemSource:
    """Training reads the train split, evaluation on unseen problems the validation split; without packs, none."""
    recorded: dict[str, list[str]] = {}
    for pack, subjects in RECORDED.items() if replay_folder().exists() else ():
        questions = read_split(pack, "validation" if unseen else "train")
        for prompt, domain in zip(questions.prompts, questions.domains, strict=True):
            subject = subjects.get(str(domain))
            if subject and len(prompt) <= MOST_CODE_POINTS:
                recorded.setdefault(subject, []).append(prompt)
    return ProblemSource(recorded, unseen)


def open_subjects(unseen: bool) -> list[str]:
    """Training knows nothing of the hidden ones; evaluation on unseen material uses all."""
    return [name for name in SUBJECTS if unseen or name not in HIDDEN]
