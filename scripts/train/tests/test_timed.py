"""A timed run begins with lists, stays inside its time, goes on after a kill and from another run."""

import json
import shutil
import sys
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from test_packed import CARDS, WIDTH, fresh_reader, fresh_source

from orchestra_train import cli, gpu_command
from orchestra_train.gguf_file import write_model
from orchestra_train.journal import Journal
from orchestra_train.pack_command import card_examples, list_examples
from orchestra_train.reading.course import Course, Reached, TimedSettings
from orchestra_train.reading.packed import Packed, pack_examples
from orchestra_train.reading.reader import Reader
from orchestra_train.reading.timed import drawn, train_packed
from orchestra_train.reading.train import CardSettings, rate_at

SETTINGS = TimedSettings(
    60.0, steps=6, examples=2, width=WIDTH, rows_at_once=2, checkpoint_every=2, lists_first=0.34, start=0.5
)


class Killed(Exception):
    pass


@pytest.fixture(scope="module")
def packs() -> tuple[Packed, Packed]:
    reader = fresh_reader()
    cards = pack_examples(reader, card_examples(CARDS, range(CARDS.steps)), WIDTH)
    return cards, pack_examples(reader, list_examples(CARDS, range(8)), WIDTH, listed=True)


def ticking(
    packs: tuple[Packed, Packed], settings: TimedSettings, folder: Path, dies: int | None = None
) -> tuple[Reader, list[dict[str, Any]]]:
    """A step takes a second; killed behind a step that dies."""
    now = [1000.0]
    log = Journal.log

    def tick(self: Journal, step: int, **figures: float) -> None:
        log(self, step, **figures)
        now[0] += 1
        if step == dies:
            raise Killed

    reader = fresh_reader()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Journal, "log", tick)
        return reader, train_packed(reader, *packs, settings, folder, lambda: now[0]).read()


@pytest.mark.parametrize("settings", [SETTINGS, replace(SETTINGS, steps=None, seconds=7.0)], ids=["steps", "seconds"])
def test_a_killed_run_goes_on_to_the_same_figures_and_weights(
    settings: TimedSettings, packs: tuple[Packed, Packed], tmp_path: Path
) -> None:
    whole, lines = ticking(packs, settings, tmp_path / "whole")
    assert ["list_loss" in line for line in lines] == [True, True, True, False, False, False]
    assert ["loss" in line for line in lines] == [False, False, False, True, True, True]
    # However badly it reads, the cards grow.
    assert lines[-1]["level"] == 1.0
    # Among the lists, and among the cards; each behind a checkpoint.
    for dies, saved in ((2, 2), (5, 4)):
        folder = tmp_path / f"killed-{dies}"
        with pytest.raises(Killed):
            ticking(packs, settings, folder, dies)
        assert torch.load(folder / "timed.pt", weights_only=True)["step"] == saved
        again, resumed = ticking(packs, settings, folder)
        assert resumed == lines
        for name, value in whole.model.state_dict().items():
            assert torch.equal(again.model.state_dict()[name], value), name
    # All is done: there is nothing to go on with.
    assert ticking(packs, settings, tmp_path / "whole")[1] == lines


def test_lists_and_cards_have_the_rates_of_the_recipe() -> None:
    course = Course(replace(SETTINGS, steps=1000, lists_first=0.1), 0, Reached(), lambda: 0.0)
    recipe = CardSettings(900, lists_first=100)
    steps = list(course)
    assert [step.rate for step in steps] == pytest.approx([rate_at(number, recipe) for number in range(1000)])
    assert [step.on_lists for step in steps] == [True] * 100 + [False] * 900
    assert (steps[50].part, steps[550].part) == (0.5, 0.5)


def test_a_run_that_goes_on_for_longer_does_not_return_to_lists() -> None:
    longer = Course(replace(SETTINGS, steps=100), 6, Reached(cards_step=3), lambda: 0.0)
    steps = list(longer)
    assert len(steps) == 94 and not any(step.on_lists for step in steps)


def test_time_that_is_spent_ends_a_run_and_counts_after_a_kill(packs: tuple[Packed, Packed], tmp_path: Path) -> None:
    settings = replace(SETTINGS, steps=None, seconds=20.0)
    # A clock that goes on by a second whenever it is asked.
    lines = train_packed(fresh_reader(), *packs, settings, tmp_path, partial(next, count(1000.0))).read()
    assert len(lines) > 2
    assert 12 < lines[-1]["seconds"] <= 20
    # All of its time lies behind it: there is nothing to go on with.
    assert train_packed(fresh_reader(), *packs, settings, tmp_path, partial(next, count(0.0))).read() == lines


def test_a_run_that_goes_on_from_another_keeps_its_probes(packs: tuple[Packed, Packed], tmp_path: Path) -> None:
    settings = replace(SETTINGS, steps=1, lists_first=0.0)
    train_packed(fresh_reader(), *packs, settings, tmp_path / "first")
    origin = tmp_path / "first" / "timed.pt"
    saved = torch.load(origin, weights_only=True)
    saved["more"]["probes"]["problem.weight"] += 1
    torch.save(saved, origin)
    train_packed(fresh_reader(), *packs, replace(settings, origin=origin), tmp_path / "second")
    found = torch.load(tmp_path / "second" / "timed.pt", weights_only=True)["more"]["probes"]["problem.weight"]
    assert (found - saved["more"]["probes"]["problem.weight"]).abs().max() < 0.01
    # Its own go before those of the origin, once it has some.
    saved["more"]["probes"]["problem.weight"] += 1
    train_packed(fresh_reader(), *packs, replace(settings, steps=2, origin=origin), tmp_path / "second")
    found = torch.load(tmp_path / "second" / "timed.pt", weights_only=True)["more"]["probes"]["problem.weight"]
    assert (found - saved["more"]["probes"]["problem.weight"]).abs().max() > 0.9


def test_the_commands_in_miniature_pack_train_export_and_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(fresh_source(), tmp_path / "base.gguf", "F32")
    packed, out = tmp_path / "packed", tmp_path / "out"

    def command(name: str, folder: Path, given: str) -> None:
        where = ["--base", str(tmp_path / "base.gguf"), "--out", str(folder)]
        monkeypatch.setattr(sys, "argv", ["orchestra-train", name, *where, *given.split()])
        cli.main()

    command("pack", packed, "--examples 16 --lists 8 --unseen 2 --cards 2 --start 1")
    # So few steps can be seen in what was learnt alone.
    shutil.copy(packed / "train.npz", packed / "unseen.npz")
    given = f"--packed {packed} --rank 4 --device cpu --steps 8 --examples 4 --rows-at-once 4 --episodes 2"
    given += " --learning-rate 3e-2 --start 1"
    command("gpu", out, f"{given} --lists-first 0.25")
    report = json.loads((out / "report.json").read_text())
    assert all(gate["ok"] for gate in report["gates"])
    assert (report["trained"]["steps"], report["trained"]["list_steps"]) == (8, 2)
    assert {"loss", "right", "wished"} <= report["table"]["after"].keys()
    assert (out / "adapter.gguf").stat().st_size > 1000

    command("gpu", tmp_path / "next", f"{given} --from {out / 'adapter.gguf'}")
    assert json.loads((tmp_path / "next" / "report.json").read_text())["trained"]["list_steps"] == 0
    # What is refused is refused before anything long.
    monkeypatch.setattr(gpu_command, "_finish", lambda *_: pytest.fail("rehearsed"))
    monkeypatch.setattr(gpu_command, "read_packed", lambda *_: pytest.fail("read"))
    with pytest.raises(SystemExit, match="another lists_first, origin: take another folder"):
        command("gpu", out, f"{given} --from {out / 'adapter.gguf'}")
    with pytest.raises(SystemExit, match="a share"):
        command("gpu", out, f"{given} --lists-first 1")


def test_a_pack_that_begins_above_the_level_is_drawn_from_widely(packs: tuple[Packed, Packed]) -> None:
    cards = replace(packs[0], levels=packs[0].levels * 0 + 1)
    seen = {number for step in range(40) for number in drawn(cards, 0.0, step, SETTINGS).tolist()}
    assert len(seen) == len(cards) > 2 * SETTINGS.examples


def test_a_checkpoint_of_an_earlier_version_is_not_gone_on_from(packs: tuple[Packed, Packed], tmp_path: Path) -> None:
    ticking(packs, SETTINGS, tmp_path)
    saved = torch.load(tmp_path / "timed.pt", weights_only=True)
    saved["more"]["spent_s"] = saved["more"].pop("reached")["spent_s"]
    torch.save(saved, tmp_path / "timed.pt")
    with pytest.raises(SystemExit, match="earlier version: take another folder"):
        ticking(packs, SETTINGS, tmp_path)
