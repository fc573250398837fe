"""Cards mean what they say, training never sees what evaluation holds back, and a run of card reading goes on."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGUFReader

from orchestra_train.contract.evidence import no_evidence
from orchestra_train.contract.load import load_contract
from orchestra_train.device import place
from orchestra_train.gguf_file import tiny_model, write_model
from orchestra_train.model import add_adapter, compile_blocks, freeze_adapters
from orchestra_train.reading.cards import CHANCES, OVERALL, Card, CardShape, Statement, fresh_card, read_card
from orchestra_train.reading.evaluate import Choosing, evaluate_choices, utilities_of, weights_of
from orchestra_train.reading.hints import Probes, figures_of, hints_of
from orchestra_train.reading.lists import wish_list_loss
from orchestra_train.reading.midway import read_midway, read_wishes
from orchestra_train.reading.outcomes import HELD_OUT_ENTRIES, fit_chances, outcome_loss, unlikelihood
from orchestra_train.reading.problems import ProblemSource, open_subjects
from orchestra_train.reading.reader import Reader, halve_frozen
from orchestra_train.reading.rosters import GAINS, Reading, ReadingShape, Tool, as_grades, fresh_reading
from orchestra_train.reading.subjects import GROUPS, HIDDEN, SUBJECTS
from orchestra_train.reading.train import (
    CardSettings,
    Curriculum,
    ReadingSource,
    fresh_problem,
    rate_at,
    train_cards,
)
from orchestra_train.reading.wishes import IMPLIED, STRENGTHS, UNSPOKEN, fresh_wish
from orchestra_train.reading.wordings import SECTIONS
from orchestra_train.tokenizer import TextTokenizer, tiny_tokenizer
from orchestra_train.world.episode import PROFILES

BELIEFS, RULES = load_contract("beliefs-1"), load_contract("slots-2")
TOKENIZER = tiny_tokenizer(BELIEFS["grades"] * 50 + ["Good at sums. Problem: how many?"] * 20, 350)
CONFIGS = Path(__file__).parents[1] / "configs"
SEEN = [name for name in SUBJECTS if name not in HIDDEN]
OWN_TASKS = ProblemSource({}, unseen=False)


def fresh_reader(half: bool = False) -> Reader:
    source = tiny_model("llama", TOKENIZER, seed=1, width=32, feed_forward=64)
    add_adapter(source.model, rank=4, alpha=8)
    place(source.model, torch.device("cpu"), half)
    if half:
        halve_frozen(source.model)
    return Reader(source.model, TextTokenizer(source.metadata), BELIEFS)


def readings(count: int, unseen: bool) -> list[Reading]:
    problems = ProblemSource({}, unseen)
    return [fresh_reading(np.random.default_rng(n), problems, 5, ReadingShape(), unseen) for n in range(count)]


def test_the_subject_counts_before_its_group_and_the_group_before_the_whole() -> None:
    whole, group = Statement((OVERALL,), 0.1, "a"), Statement(("natural sciences",), 0.5, "b")
    subject, other = Statement(("law", "physics"), 0.9, "c"), Statement(("music",), 0.7, "d")
    assert read_card(Card((whole, group, subject, other)), "physics") == 0.9
    assert read_card(Card((whole, group, other)), "physics") == 0.5
    assert read_card(Card((whole, other)), "physics") == 0.1
    assert read_card(Card((other,)), "physics") == pytest.approx(0.6)
    assert read_card(Card(()), "physics") == 0.5


def test_a_card_tells_every_grade_as_often_and_apart_from_what_else_it_says() -> None:
    rng = np.random.default_rng(0)
    told, others = [], []
    for _ in range(1500):
        card = fresh_card(rng, "law", SEEN, CardShape(named=1, measured=0), unseen=False)
        told.append(read_card(card, "law"))
        rest = [one.chance for one in card.statements if "law" not in one.about and one.chance is not None]
        others.append(float(np.mean(rest)) if rest else np.nan)
    counts = [told.count(chance) for chance in CHANCES]
    assert min(counts) > 200
    known = ~np.isnan(others)
    assert abs(np.corrcoef(np.array(told)[known], np.array(others)[known])[0, 1]) < 0.1


def test_training_shows_no_wording_task_or_subject_that_evaluation_holds_back() -> None:
    for one in readings(300, unseen=False):
        tasks = [task for subject in SUBJECTS.values() for task in subject.tasks[1]]
        assert one.subject not in HIDDEN and one.problem not in tasks
        for statement in (statement for tool in one.tools for statement in tool.card.statements):
            for about, name in zip(statement.about, statement.names, strict=False):
                allowed = GROUPS[about] if about in GROUPS else SUBJECTS[about].names
                assert about not in HIDDEN and name in allowed[0]
    assert not set(open_subjects(unseen=False)) & set(HIDDEN)
    assert all(subject.group in GROUPS for subject in SUBJECTS.values())


def test_every_list_of_words_has_a_seen_and_an_unseen_half() -> None:
    for subject in SUBJECTS.values():
        assert all(subject.names) and all(subject.tasks), subject.name
        assert not set(subject.names[0]) & set(subject.names[1])
    for name, (seen, unseen) in SECTIONS.items():
        assert seen and unseen and not set(seen) & set(unseen), name


def test_evidence_that_answers_lifts_and_helpers_have_no_second_go() -> None:
    chances = {True: [], False: []}
    for one in readings(600, unseen=True):
        answered = bool(one.evidence["documents"]) and one.problem[:60] in one.evidence["documents"][0]["text"]
        chances[answered] += [tool.value for tool in one.tools if tool.role == "answer"]
        if answered:
            assert all(tool.value == 1.0 for tool in one.tools if tool.role == "search")
    assert 0.1 < np.mean(chances[True]) - np.mean(chances[False]) < 0.2
    # No card says more, and what is found lifts nobody beyond 0.9.
    assert max(chances[True]) <= 0.99


def test_grades_have_the_mean_that_is_told() -> None:
    for stops in (CHANCES, GAINS):
        for value in np.linspace(stops[0], stops[-1], 23):
            weights = as_grades(float(value), stops)
            assert weights.sum() == pytest.approx(1)
            assert weights @ np.array(stops) == pytest.approx(value)
            assert (weights > 0).sum() <= 2


def every_wording(axis: str) -> re.Pattern[str]:
    """What a wish about this axis may say, alternatives included."""
    lines = [line for one in STRENGTHS for line in SECTIONS[f"wish {axis} {one}"][0]]
    return re.compile("|".join(re.sub("<(.*?)>", _either, re.escape(line)) for line in lines))


def _either(found: re.Match[str]) -> str:
    return f"(?:{found[1].replace('/', '|')})"


def test_a_wish_says_nothing_of_what_it_does_not_speak_of() -> None:
    said = {axis: every_wording(axis) for axis in UNSPOKEN}
    for seed in range(200):
        wish = fresh_wish(np.random.default_rng(seed), unseen=False)
        for axis, grade in zip(UNSPOKEN, wish.grades, strict=True):
            spoken = said[axis].search(wish.text) is not None
            implied = [told[axis] for told in IMPLIED.values() if axis in told]
            assert spoken or grade in (UNSPOKEN[axis], *implied)


@pytest.mark.parametrize("axis", UNSPOKEN)
def test_a_wish_for_one_thing_means_about_what_the_profile_of_its_name_does(axis: str) -> None:
    alone = (fresh_wish(np.random.default_rng(seed), unseen=False) for seed in count())
    said = {one: every_wording(one) for one in UNSPOKEN}
    wish = next(
        one
        for one in alone
        if one.grades[list(UNSPOKEN).index(axis)] == STRENGTHS["most"]
        and [name for name, words in said.items() if words.search(one.text)] == [axis]
    )
    found = weights_of([BELIEFS["weights"][grade] for grade in wish.grades])
    assert list(found.values()) == pytest.approx(PROFILES[axis], abs=0.03)


def test_of_equally_good_tools_the_cheaper_is_chosen_and_a_price_swap_is_followed() -> None:
    tools = (Tool("answer", "Good.", 0.7), Tool("answer", "Good.", 0.7))
    reading = Reading("Q", "law", {"documents": [], "codeRuns": [], "attempts": []}, tools)
    for cheaper in (0, 1):
        costs = np.array([0.02, 0.02])
        costs[cheaper] = 0.001
        waits = np.array([1000.0, 1000.0])
        choosing = Choosing(reading, None, weights_of([0.3, 0.7, 0, 0]), costs, waits, ("any", "any"))
        utilities = utilities_of(choosing, [0.7, 0.7], choosing.weights, RULES)
        # An attempt and an answer of each tool, in turn.
        assert int(np.argmax(utilities)) // 2 == cheaper
        values = [0.7 + 0.2 * (place != cheaper) for place in (0, 1)]
        better = utilities_of(choosing, values, weights_of([1, 0, 0, 0]), RULES)
        assert int(np.argmax(better)) // 2 == 1 - cheaper


def test_an_evaluation_gives_shares_and_a_random_reader_gives_utility_away() -> None:
    figures = evaluate_choices(fresh_reader(), RULES, 6, SEEN)
    assert 0 <= figures["same_choice"] <= figures["within_0.05"] <= 1
    assert figures["regret"] > 0
    assert evaluate_choices(fresh_reader(), RULES, 6, SEEN) == figures


def test_half_precision_reads_nearly_the_same() -> None:
    whole, half = fresh_reader(), fresh_reader(half=True)
    trees = [whole.tree(one) for one in readings(3, unseen=False)]
    for exact, rough in zip(whole.grades(trees), half.grades(trees), strict=True):
        assert (exact - rough).abs().max() < 0.05


def test_hints_point_at_names_and_statements_and_tell_which_are_meant() -> None:
    law = Statement(("law", "cooking"), 0.9, "superb at torts and roasts", ("torts", "roasts"))
    whole = Statement((OVERALL,), 0.3, "weak overall")
    card = Card((Statement((), None, "writes briefly"), law, whole))
    aside, named, overall = hints_of(card, "law")
    assert card.text[: named.end].endswith("roasts.") and card.text[: aside.end] == "Writes briefly."
    assert [(card.text[:end].split()[-1], meant) for end, meant in named.name_ends] == [
        ("torts", True),
        ("roasts", False),
    ]
    assert (aside.bearing, named.bearing, overall.bearing) == (0, 3, 1)
    assert (aside.chance, named.chance, overall.chance) == (None, 0.9, 0.3)
    assert [hint.bearing for hint in hints_of(card, "geometry")] == [0, 0, 1]


def test_reading_midway_gives_the_same_grades_and_hints_that_can_be_learnt() -> None:
    reader = fresh_reader()
    torch.manual_seed(1)
    probes = Probes(32, reader.model.config.layers)
    [reading] = readings(1, unseen=False)
    midway = read_midway(reader, probes, reading)
    [grades] = reader.grades([reader.tree(reading)])
    assert torch.allclose(midway.grades, grades, atol=1e-5)
    optimizer = torch.optim.Adam(probes.parameters(), lr=0.05)
    first = midway.hint_loss.item()
    for _ in range(60):
        optimizer.zero_grad()
        loss = read_midway(reader, probes, reading).hint_loss
        loss.backward()
        optimizer.step()
    assert loss.item() < first / 2


def test_probes_beside_a_trained_reader_learn_before_they_teach() -> None:
    reader = fresh_reader()
    probes = Probes(32, reader.model.config.layers)
    probes.begin_silent()
    rng = np.random.default_rng(2)
    [reading] = readings(1, unseen=False)
    wishes = [fresh_wish(rng, unseen=False) for _ in range(3)]
    optimizer = torch.optim.Adam(probes.parameters(), lr=0.05)

    def taught() -> float:
        """How much the hints ask of the reader: the norm of their gradient."""
        reader.model.zero_grad()
        optimizer.zero_grad()
        (read_midway(reader, probes, reading).hint_loss + read_wishes(reader, probes, wishes).hint_loss).backward()
        return sum(one.grad.norm().item() for one in reader.model.parameters() if one.grad is not None)

    assert taught() == 0
    for _ in range(3):
        optimizer.step()
        assert taught() > 0


def test_cards_grow_only_while_the_reader_keeps_up() -> None:
    curriculum = Curriculum(level=0.2)
    for _ in range(100):
        curriculum.advance(0.5, 3)
    assert curriculum.level == 0.2
    for _ in range(300):
        curriculum.advance(0.95, 3)
    assert curriculum.level == 1.0


def test_cards_of_every_kind_come_up_however_badly_the_reader_does() -> None:
    curriculum = Curriculum(level=0.0)
    for part in (0.0, 0.05):
        curriculum.reach(part)
        assert curriculum.level == 0
    curriculum.reach(0.2)
    assert 0.4 < curriculum.level < 0.7
    curriculum.reach(0.15)
    assert curriculum.level > 0.4
    curriculum.reach(0.4)
    assert curriculum.level == 1.0


def test_a_killed_run_goes_on_with_the_same_losses(tmp_path: Path) -> None:
    settings = CardSettings(4, problems=2, cards=2, checkpoint_every=3, check_every=99, lists_first=2)

    def losses(
        source: ReadingSource = fresh_problem, folder: str = "whole"
    ) -> list[tuple[float | None, float | None, float]]:
        torch.manual_seed(3)
        lines = train_cards(fresh_reader(), settings, tmp_path / folder, source).read()
        return [(line.get("loss"), line.get("wish_loss"), line["list_loss"]) for line in lines]

    drawn: list[Reading] = []

    def dies(rng: np.random.Generator, told: CardSettings, level: float) -> Reading:
        drawn.append(fresh_problem(rng, told, level))
        # In the fifth step, after the checkpoint.
        if len(drawn) > 4:
            raise KeyboardInterrupt
        return drawn[-1]

    with pytest.raises(KeyboardInterrupt):
        losses(dies, "killed")
    assert torch.load(tmp_path / "killed" / "cards.pt", weights_only=True)["step"] == 3
    whole = losses()
    assert losses(folder="killed") == whole
    assert [loss is None for loss, *_ in whole] == [True, True, False, False, False, False]


def test_the_rate_falls_through_the_lists_begins_anew_for_the_cards_and_ends_near_nothing() -> None:
    settings = CardSettings(1000, lists_first=100)
    rates = [rate_at(step, settings) for step in range(1100)]
    assert max(rates[:100]) > 2 and rates[99] < 1.1
    assert rates[100] < 0.1 and max(rates[100:]) > 0.95
    assert rates[1099] == pytest.approx(0.05)
    assert all(later <= earlier for earlier, later in pairwise(rates[120:]))


def test_a_run_that_goes_on_from_another_keeps_its_probes(tmp_path: Path) -> None:
    settings = CardSettings(1, problems=1, cards=2, check_every=99)
    train_cards(fresh_reader(), settings, tmp_path / "first")
    origin = tmp_path / "first" / "cards.pt"
    saved = torch.load(origin, weights_only=True)
    saved["more"]["probes"]["problem.weight"] += 1
    torch.save(saved, origin)
    train_cards(fresh_reader(), settings, tmp_path / "second", origin=origin)
    found = torch.load(tmp_path / "second" / "cards.pt", weights_only=True)["more"]["probes"]["problem.weight"]
    assert (found - saved["more"]["probes"]["problem.weight"]).abs().max() < 0.01
    with pytest.raises(SystemExit, match="another origin: take another folder"):
        train_cards(fresh_reader(), settings, tmp_path / "second")
    del saved["more"]["probes"]["wish.weight"]
    torch.save(saved, origin)
    with pytest.raises(SystemExit, match="cards.pt was trained with other hints"):
        train_cards(fresh_reader(), settings, tmp_path / "third", origin=origin)


def test_a_folder_that_holds_another_course_is_refused(tmp_path: Path) -> None:
    settings = CardSettings(1, problems=1, cards=2, check_every=99)
    train_cards(fresh_reader(), settings, tmp_path)
    with pytest.raises(SystemExit, match="another learning_rate, wishes: take another folder"):
        train_cards(fresh_reader(), replace(settings, steps=2, learning_rate=1e-4, wishes=1), tmp_path)
    # More of the same is no other course.
    assert len(train_cards(fresh_reader(), replace(settings, steps=2), tmp_path).read()) == 2


def test_wishes_of_one_row_are_read_as_each_alone_and_asked_on_the_way_alike() -> None:
    reader = fresh_reader()
    probes = Probes(32, reader.model.config.layers)
    wishes = [fresh_wish(np.random.default_rng(seed), unseen=False) for seed in range(4)]
    together = read_wishes(reader, probes, wishes)
    for alone, beside in zip(reader.grades([reader.tree(one) for one in wishes]), together.grades, strict=True):
        assert torch.allclose(alone, beside, atol=1e-5)
    listed, figures = wish_list_loss(reader, probes, wishes)
    assert listed.item() == pytest.approx(together.hint_loss.item(), abs=1e-5)
    assert figures["listed_wishes"] == together.right


def test_evidence_says_whether_it_settles_the_problem_and_only_where_there_is_some() -> None:
    reader, probes = fresh_reader(), Probes(32, 2)
    told = []
    for seed in range(60):
        reading = fresh_reading(np.random.default_rng(seed), OWN_TASKS, 2, ReadingShape(), unseen=False)
        figures = read_midway(reader, probes, reading).figures
        assert ("settled" in figures) == (reading.settled is not None) == (reading.evidence != no_evidence())
        if reading.settled:
            told.append(reading.settled)
            for one in reading.tools:
                told_of = read_card(one.card, reading.subject)
                if one.role == "answer" and told_of < 0.9:
                    assert (one.value > told_of) == any(reading.settled)
    assert {(True, False), (False, True), (False, False)} == set(told)


def test_steps_of_recorded_outcomes_alone_do_not_hold_the_curriculum_back(tmp_path: Path) -> None:
    tool = Tool("answer", "Measured: law 62%; math 40%.", 1.0)
    recorded = Reading("How many?", "math", no_evidence(), (tool,), recorded=True)
    settings = CardSettings(2, problems=2, start=0.5)
    lines = train_cards(fresh_reader(), settings, tmp_path, lambda *_: recorded).read()
    assert all("right" not in line for line in lines)
    assert torch.load(tmp_path / "cards.pt", weights_only=True)["more"]["curriculum"]["right"] == 0


@pytest.mark.parametrize("problem", ["How many are 2 and 2? " * 3000, "What is \ud800 here?"])
def test_problems_that_the_prompt_shows_otherwise_have_hints_too(problem: str) -> None:
    reader = fresh_reader()
    tool = Tool("answer", "Measured: law 62%; math 40%.", 1.0)
    midway = read_midway(reader, Probes(32, 2), Reading(problem, "math", no_evidence(), (tool,), recorded=True))
    assert midway.hint_loss.item() > 0


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_blocks_read_and_learn_the_same() -> None:
    def read(compiled: bool) -> list[torch.Tensor]:
        torch.manual_seed(3)
        reader = fresh_reader()
        if compiled:
            compile_blocks(reader.model)
        found = []
        for seed in range(2):
            reading = fresh_reading(np.random.default_rng(seed), OWN_TASKS, 2 + seed, ReadingShape(), unseen=False)
            [grades] = reader.grades([reader.tree(reading)])
            grades[:, 0].sum().backward()
            found.append(grades.detach())
        return [*found, *(one.grad for one in reader.model.parameters() if one.grad is not None)]

    for plain, fused in zip(read(False), read(True), strict=True):
        assert torch.allclose(plain, fused, atol=1e-4)


def test_frozen_layers_stay_as_they_are_and_are_in_the_checkpoint(tmp_path: Path) -> None:
    reader = fresh_reader()
    freeze_adapters(reader.model, 1)
    before = {name: value.clone() for name, value in reader.model.named_parameters() if "lora_b" in name}
    train_cards(reader, CardSettings(2, problems=1, cards=2, check_every=99), tmp_path)
    saved = torch.load(tmp_path / "cards.pt", weights_only=True)["model"]
    for name, value in before.items():
        assert torch.equal(saved[name], value) == name.startswith("blk.0."), name


def test_outcomes_are_most_likely_under_the_chances_that_made_them() -> None:
    rng = np.random.default_rng(1)
    truth = np.array([0.02, 0.2, 0.4, 0.75, 0.97])
    shares = rng.dirichlet(np.full(5, 0.1), 4000)
    right = (rng.random(4000) < shares @ truth).astype(float)
    found = fit_chances(shares, right)
    assert np.abs(found - truth).max() < 0.08
    assert (np.diff(found) >= 0).all()
    assert unlikelihood(shares @ found, right) <= unlikelihood(shares @ truth, right) + 1e-4


def test_the_outcome_loss_is_small_for_a_reader_that_knew() -> None:
    tools = (Tool("answer", "", 1.0), Tool("answer", "", 0.0))
    reading = Reading("", "law", {"documents": [], "codeRuns": [], "attempts": []}, tools, recorded=True)
    chances = torch.tensor(BELIEFS["chances"])
    sure = torch.tensor([[1e-9, 1e-9, 1e-9, 1e-9, 1.0], [1.0, 1e-9, 1e-9, 1e-9, 1e-9]]).log()
    assert outcome_loss(sure, chances, reading) < outcome_loss(sure.flip(0), chances, reading)
    assert outcome_loss(sure, chances, reading).item() == pytest.approx(-np.log(0.9), abs=1e-4)


FIGURES = "Measured on 60 calibration questions: 71% correct overall. By subject: law 88%; math 40%. Answers are short."


def test_entries_of_recorded_cards_are_hints_and_held_out_subjects_leave_no_line() -> None:
    law, maths = figures_of(FIGURES, "math")
    assert (FIGURES[: law.end][-4:], law.bearing, law.chance) == ("88%;", 0, 0.88)
    assert (maths.bearing, maths.chance) == (3, 0.4)
    assert FIGURES[: maths.name_ends[0][0]].endswith("math") and maths.name_ends[0][1]
    assert HELD_OUT_ENTRIES.sub("", FIGURES) == FIGURES.replace(" law 88%;", "")


def test_held_out_subjects_leave_a_card_wherever_they_stand() -> None:
    card = "By subject: law 9%; history 8%; math 7%; engineering 6%; health 5%; psychology 4%; law 3%. Short."
    assert HELD_OUT_ENTRIES.sub("", card) == "By subject: math 7%; health 5%. Short."


def test_the_readers_recipe_runs_from_the_base_to_an_adapter(tmp_path: Path) -> None:
    write_model(tiny_model("llama", TOKENIZER, seed=1, width=32, feed_forward=64), tmp_path / "base.gguf", "F32")
    few = {"LISTS": "1", "STEPS": "2", "OUTCOMES": "0", "EPISODES": "2", "COMPILE": ""}
    given = {**os.environ, **few, "BASE": str(tmp_path / "base.gguf"), "OUT": str(tmp_path / "out")}
    command = [sys.executable, "-m", "orchestra_train.cli"]
    (tmp_path / "orchestra-train").write_text(f'#!/bin/sh\nexec {" ".join(command)} "$@"\n')
    (tmp_path / "orchestra-train").chmod(0o755)
    given["PATH"] = f"{tmp_path}{os.pathsep}{given['PATH']}"
    done = subprocess.run([CONFIGS / "card-reader.sh"], env=given, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout[done.stdout.index("{") :])["unseen_wordings"]["episodes"] == 2
    assert trained_with(tmp_path / "out" / "adapter.gguf") == ("beliefs-1", BELIEFS["hash"])


def trained_with(adapter: Path) -> tuple[str, str]:
    fields = GGUFReader(adapter).fields
    return fields["orchestra.contract"].contents(), fields["orchestra.contract_hash"].contents()
