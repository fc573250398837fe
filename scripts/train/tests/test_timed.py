"""A timed run stays inside its time and goes on after a kill."""

import argparse
import json
import time
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import pytest
import torch
from test_packed import BELIEFS, CARDS, METADATA, WIDTH, fresh_reader, fresh_source

from orchestra_train.gguf_file import write_model
from orchestra_train.gpu_command import train_in_time
from orchestra_train.pack_command import card_examples
from orchestra_train.reading.packed import ROW_TOKENS, Packed, fingerprint, pack_examples, write_packed
from orchestra_train.reading.reader import Reader
from orchestra_train.reading.timed import TimedSettings, train_packed

SETTINGS = TimedSettings(60.0, steps=4, examples=2, width=WIDTH, rows_at_once=2, checkpoint_every=2)


def packed_file(most_tokens: int = WIDTH) -> tuple[Reader, Packed]:
    reader = fresh_reader()
    return reader, pack_examples(reader, card_examples(CARDS, range(CARDS.steps)), most_tokens)


def test_a_killed_run_goes_on_to_the_same_losses_and_weights(tmp_path: Path) -> None:
    whole, packed = packed_file()
    lines = train_packed(whole, packed, SETTINGS, tmp_path / "whole").read()
    # As if it had been killed behind its checkpoint: the schedule is that of four steps.
    cut = fresh_reader()
    checkpoint = tmp_path / "cut" / "timed.pt"

    class Killed(Exception):
        pass

    def packed_until_two() -> None:
        from orchestra_train.journal import Journal

        log = Journal.log

        def log_and_die(self: Journal, now: int, **figures: float) -> None:
            log(self, now, **figures)
            if now == 2:
                raise Killed

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Journal, "log", log_and_die)
            train_packed(cut, packed, SETTINGS, tmp_path / "cut")

    with pytest.raises(Killed):
        packed_until_two()
    assert torch.load(checkpoint, weights_only=True)["step"] == 2
    again = fresh_reader()
    resumed = train_packed(again, packed, SETTINGS, tmp_path / "cut").read()
    assert [(line["step"], line["loss"]) for line in resumed] == [(line["step"], line["loss"]) for line in lines]
    for name, value in whole.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], value), name


def test_time_that_is_spent_ends_a_run_and_counts_after_a_kill(tmp_path: Path) -> None:
    reader, packed = packed_file()
    settings = replace(SETTINGS, steps=None, seconds=20.0)
    # A clock that goes on by a second whenever it is asked.
    lines = train_packed(reader, packed, settings, tmp_path, partial(next, count(1000.0))).read()
    assert len(lines) > 2
    assert 12 < lines[-1]["seconds"] <= 20
    # All of its time lies behind it: there is nothing to go on with.
    assert train_packed(fresh_reader(), packed, settings, tmp_path, partial(next, count(0.0))).read() == lines


def test_the_whole_command_in_miniature_exports_and_reports(tmp_path: Path) -> None:
    source = fresh_source()
    write_model(source, tmp_path / "base.gguf", "F32")
    reader, packed = packed_file(ROW_TOKENS)
    made_with = fingerprint(METADATA, BELIEFS)
    write_packed(packed, tmp_path / "train.npz", made_with)
    # So few steps can be seen in what was learnt alone.
    write_packed(packed, tmp_path / "unseen.npz", made_with)
    arguments = argparse.Namespace(
        base=tmp_path / "base.gguf",
        packed=tmp_path,
        out=tmp_path / "out",
        origin=None,
        rank=4,
        device="cpu",
        half=False,
        threads=1,
        minutes=10.0,
        steps=6,
        examples=4,
        rows_at_once=4,
        learning_rate=3e-2,
        start=1.0,
        episodes=2,
        seed=1,
    )
    report = train_in_time(arguments, time.monotonic())
    assert all(gate["ok"] for gate in report["gates"])
    assert report["trained"]["steps"] == 6
    written = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (written["gates"], written["trained"]) == (report["gates"], report["trained"])
    assert (tmp_path / "out" / "adapter.gguf").stat().st_size > 1000
    arguments.origin = tmp_path / "out" / "timed.pt"
    with pytest.raises(SystemExit, match="another origin: take another folder"):
        train_in_time(arguments, time.monotonic())
