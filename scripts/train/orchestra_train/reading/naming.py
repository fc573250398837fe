"""Which of many names fit a problem? Long cards of names alone, asked of the lower layers: many answers for few tokens.

What fails first on material that training never showed is not how good a tool is said to be, but whether what it is
good at is what the problem is about.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ..contract.evidence import no_evidence
from ..packing import Row, batch_inputs
from .cards import Card, Statement
from .hints import Probes
from .midway import hint_places
from .problems import ProblemSource
from .reader import Reader
from .rosters import Reading, Tool
from .subjects import GROUPS, SUBJECTS
from .wordings import Rng, choose, shuffled, worded

OWN, SIBLINGS, STRANGERS = 2, 3, 9
# How often the problem's group is named too, and how often names stand in sentences of their own.
BY_GROUP, SPOKEN = 0.3, 0.3


def fresh_naming(rng: Rng, problems: ProblemSource, subjects: Sequence[str]) -> Reading:
    subject = choose(rng, subjects)
    group = SUBJECTS[subject].group
    siblings = [one for one in subjects if one != subject and SUBJECTS[one].group == group]
    strangers = [one for one in subjects if SUBJECTS[one].group != group]
    named = [(subject, name) for name in shuffled(rng, SUBJECTS[subject].names[0])[: rng.integers(1, OWN + 1)]]
    if rng.random() < BY_GROUP:
        named.append((group, choose(rng, GROUPS[group][0])))
    for other in shuffled(rng, siblings)[:SIBLINGS] + shuffled(rng, strangers)[:STRANGERS]:
        named.append((other, choose(rng, SUBJECTS[other].names[0])))
    spoken = rng.random() < SPOKEN
    statements = []
    for about, name in shuffled(rng, named):
        text = worded(rng, f"graded {rng.integers(5)}", unseen=False).replace("{d}", name) if spoken else name
        statements.append(Statement((about,), None, text, (name,)))
    card = Card(tuple(statements), "" if spoken else ";")
    return Reading(problems.fresh(rng, subject), subject, no_evidence(), (Tool("answer", card.text, "any", 0.5, card),))


def naming_loss(reader: Reader, probes: Probes, namings: Sequence[Reading]) -> tuple[Tensor, dict[str, float]]:
    """All in one row, as they begin alike; only the layers below the question are computed."""
    row = Row()
    ends, names, owners, meant = [], [], [], []
    for number, naming in enumerate(namings):
        added = row.add(reader.tree(naming))
        places = hint_places(reader, naming, added.branches)
        ends.append(added.prefix_end)
        names += places.names
        owners += [number] * len(places.names)
        meant += places.meant
    inputs = batch_inputs([row], reader.model.device)
    _, layers = reader.model.midway(*inputs, {probes.matched}, depth=probes.matched)
    seen = layers[probes.matched][0].cpu()
    odds = probes.matches(seen[ends], seen[names])[owners, range(len(names))]
    target = torch.tensor(meant)
    own = odds[target > 0] > 0
    figures = {"named": ((odds > 0) == (target > 0)).float().mean().item(), "named_own": own.float().mean().item()}
    return F.binary_cross_entropy_with_logits(odds, target), figures
