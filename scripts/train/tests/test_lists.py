"""Lists of names say which of them fit a problem, and what is learnt from them stays in the lower layers."""

import numpy as np
import pytest
import torch

from orchestra_train.contract.load import load_contract
from orchestra_train.gguf_file import tiny_model
from orchestra_train.model import add_adapter
from orchestra_train.reading.cards import CHANCES, OVERALL, Card, read_card, relative_card
from orchestra_train.reading.hints import Probes, hints_of
from orchestra_train.reading.lists import fresh_list, list_loss
from orchestra_train.reading.problems import ProblemSource
from orchestra_train.reading.reader import Reader
from orchestra_train.reading.rosters import Reading
from orchestra_train.reading.subjects import GROUPS, HIDDEN, SUBJECTS
from orchestra_train.tokenizer import TextTokenizer, tiny_tokenizer

TOKENIZER = tiny_tokenizer(["Good at sums. Problem: how many?"] * 20, 350)
SEEN = [name for name in SUBJECTS if name not in HIDDEN]


def fresh_reader() -> Reader:
    torch.manual_seed(2)
    source = tiny_model("llama", TOKENIZER, seed=1, width=32, feed_forward=64)
    add_adapter(source.model, rank=4, alpha=8)
    for part in source.model.projections().values():
        torch.nn.init.normal_(part.lora_b, std=0.05)
    return Reader(source.model, TextTokenizer(source.metadata), load_contract("beliefs-1"))


def some_lists(count: int) -> list[Reading]:
    return [fresh_list(np.random.default_rng(seed), ProblemSource({}, False), SEEN) for seed in range(count)]


def test_names_of_the_problems_subject_and_group_fit_and_no_others() -> None:
    for one in some_lists(100):
        subject = SUBJECTS[one.subject]
        own = {name.lower() for name in (*subject.names[0], *GROUPS[subject.group][0])}
        card = one.tools[0].card
        fitting = 0
        for statement, hint in zip(card.statements, hints_of(card, one.subject), strict=True):
            if statement.about == (OVERALL,):
                assert hint.chance is not None and not hint.name_ends
                continue
            [(end, fits)] = hint.name_ends
            assert card.text[:end].lower().endswith(statement.names[0].lower())
            assert fits == (statement.names[0].lower() in own)
            fitting += fits
        assert 1 <= fitting <= 3 < len(card.statements)


@pytest.mark.parametrize("spoken", [False, True])
def test_lists_in_one_row_have_the_loss_of_each_alone_and_leave_upper_layers_as_they_are(spoken: bool) -> None:
    reader = fresh_reader()
    probes = Probes(32, reader.model.config.layers)
    # Each statement has a name, so that names and grades are as many.
    cards = [one.tools[0].card for one in some_lists(80)]
    alike = [_names_all(card) and (not card.joint) == spoken for card in cards]
    several = [one for one, fits in zip(some_lists(80), alike, strict=True) if fits][:3]
    together, figures = list_loss(reader, probes, several)
    counts = [len(one.tools[0].card.statements) for one in several]
    alone = [list_loss(reader, probes, [one])[0] * count for one, count in zip(several, counts, strict=True)]
    assert torch.allclose(together, sum(alone) / sum(counts), atol=1e-5)
    assert ("listed_grades" in figures) == spoken
    assert 0 <= figures["named_own"] <= 1
    together.backward()
    learnt = {name for name, one in reader.model.named_parameters() if one.grad is not None and one.grad.any()}
    layers = {int(name.split(".")[1]) for name in learnt}
    assert layers == set(range(probes.matched)) != set(range(reader.model.config.layers))


def test_names_that_fit_can_be_learnt() -> None:
    reader = fresh_reader()
    probes = Probes(32, reader.model.config.layers)
    several = some_lists(2)
    optimizer = torch.optim.Adam([*probes.parameters(), *filter(_learns, reader.model.parameters())], lr=0.02)
    first = list_loss(reader, probes, several)[0].item()
    for _ in range(200):
        optimizer.zero_grad()
        loss, _ = list_loss(reader, probes, several)
        loss.backward()
        optimizer.step()
    assert loss.item() < first / 2


def _names_all(card: Card) -> bool:
    return all(statement.names for statement in card.statements)


def _learns(parameter: torch.Tensor) -> bool:
    return parameter.requires_grad


def test_a_relative_card_tells_a_grade_above_and_one_below_the_whole() -> None:
    for seed in range(50):
        card = relative_card(np.random.default_rng(seed), "law", SEEN, unseen=False)
        whole, best, worst = card.statements
        grades = [CHANCES.index(one.chance) for one in (whole, best, worst)]
        assert whole.about == (OVERALL,) and grades == [grades[0], grades[0] + 1, grades[0] - 1]
        assert "law" in best.about + worst.about
        assert read_card(card, "law") == (best if "law" in best.about else worst).chance
        assert card.text.count(";") >= 2
