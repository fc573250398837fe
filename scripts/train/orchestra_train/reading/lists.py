"""Which of many names fit a problem, how good is each tool said to be, what does each wish care for? Long lists, asked
of the lower layers alone.

Many answers for few tokens: what a card needs in order to be read is learnt here several times faster than on cards.
What failed first on material that training never showed was to find the statement that the problem is about.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ..contract.evidence import no_evidence
from ..packing import Row, Tree, batch_inputs
from .cards import CHANCES, OVERALL, Card, Statement
from .hints import Probes, statement_targets
from .midway import hint_places, wish_hints
from .outcomes import fresh_recorded
from .problems import ProblemSource
from .reader import Reader
from .rosters import Reading, Tool
from .subjects import GROUPS, SUBJECTS
from .wishes import Wish
from .wordings import Rng, choose, shuffled, worded

OWN, SIBLINGS, STRANGERS = 2, 3, 9
# How often the problem's group is named too, how often names stand in graded sentences, and how often one more speaks
# of everything.
BY_GROUP, SPOKEN, ON_ALL = 0.3, 0.5, 0.2
# How often a list is a recorded card of figures, where recordings are learnt from.
RECORDED = 0.15
FIGURES = ("exact",)
# Weight of the grades beside the names.
GRADED = 0.5


def fresh_list(rng: Rng, problems: ProblemSource, subjects: Sequence[str], recorded: float = 0.0) -> Reading:
    if rng.random() < recorded:
        return fresh_recorded(rng, 1, FIGURES)
    subject = choose(rng, subjects)
    spoken = rng.random() < SPOKEN
    statements: list[Statement] = []
    for about, name in shuffled(rng, _named(rng, subject, subjects)):
        if spoken and rng.random() < ON_ALL:
            grade = int(rng.integers(5))
            statements.append(Statement((OVERALL,), CHANCES[grade], worded(rng, f"overall {grade}", unseen=False)))
        statements.append(_graded(rng, about, name) if spoken else Statement((about,), None, name, (name,)))
    card = Card(tuple(statements), "" if spoken else ";")
    return Reading(problems.fresh(rng, subject), subject, no_evidence(), (Tool("answer", card.text, 0.5, card),))


def _named(rng: Rng, subject: str, subjects: Sequence[str]) -> list[tuple[str, str]]:
    """Subjects and what they are called: the problem's own, perhaps its group, neighbours and strangers."""
    group = SUBJECTS[subject].group
    siblings = [one for one in subjects if one != subject and SUBJECTS[one].group == group]
    strangers = [one for one in subjects if SUBJECTS[one].group != group]
    named = [(subject, name) for name in shuffled(rng, SUBJECTS[subject].names[0])[: rng.integers(1, OWN + 1)]]
    if rng.random() < BY_GROUP:
        named.append((group, choose(rng, GROUPS[group][0])))
    others = shuffled(rng, siblings)[:SIBLINGS] + shuffled(rng, strangers)[:STRANGERS]
    return named + [(other, choose(rng, SUBJECTS[other].names[0])) for other in others]


def _graded(rng: Rng, about: str, name: str) -> Statement:
    grade = int(rng.integers(5))
    text = worded(rng, f"graded {grade}", unseen=False).replace("{d}", name)
    return Statement((about,), CHANCES[grade], text, (name,))


def list_loss(reader: Reader, probes: Probes, lists: Sequence[Reading]) -> tuple[Tensor, dict[str, float]]:
    """All in one row, as they begin alike; only the layers below the questions are computed."""
    row = Row()
    ends, names, owners, meant = [], [], [], []
    statements, hints = [], []
    for number, one in enumerate(lists):
        added = row.add(reader.tree(one))
        places = hint_places(reader, one, added.branches)
        ends.append(added.prefix_end)
        names += places.names
        owners += [number] * len(places.names)
        meant += places.meant
        statements += places.statements
        hints += places.hints
    inputs = batch_inputs([row], reader.model.device)
    _, layers = reader.model.midway(*inputs, {probes.matched}, depth=probes.matched)
    seen = layers[probes.matched][0].cpu()
    odds = probes.matches(seen[ends], seen[names])[owners, range(len(names))]
    target = torch.tensor(meant)
    loss = F.binary_cross_entropy_with_logits(odds, target)
    own = odds[target > 0] > 0
    figures = {"named": ((odds > 0) == (target > 0)).float().mean().item()}
    if len(own):
        figures["named_own"] = own.float().mean().item()
    _, grades, graded = statement_targets(hints)
    if graded.any():
        found = probes.grades(seen[statements])[graded].log_softmax(-1)
        loss = loss - GRADED * (grades[graded] * found).sum(-1).mean()
        figures["listed_grades"] = (found.argmax(-1) == grades[graded].argmax(-1)).float().mean().item()
    return loss, figures | {"list_loss": loss.item()}


def unasked(reader: Reader, wish: Wish) -> Tree:
    return Tree(reader.tree(wish).prefix, [])


def wish_list_loss(reader: Reader, probes: Probes, wishes: Sequence[Wish]) -> tuple[Tensor, dict[str, float]]:
    """Wishes without their questions, as names stand without theirs."""
    row = Row()
    ends = [row.add(unasked(reader, wish)).prefix_end for wish in wishes]
    inputs = batch_inputs([row], reader.model.device)
    _, layers = reader.model.midway(*inputs, {probes.matched}, depth=probes.matched)
    loss, right = wish_hints(probes, layers[probes.matched][0, ends].cpu(), wishes)
    return loss, {"listed_wishes": right}
