"""Judged runs of one's own gateway: what is counted, what is learnt, and what is never read."""

import json
import sys
from argparse import Namespace

import pytest
import torch

from orchestra_train import cli, trace_commands
from orchestra_train.contract.load import load_contract
from orchestra_train.gguf_file import tiny_model, write_adapter, write_model
from orchestra_train.journal import checkpoint_fingerprint
from orchestra_train.model import add_adapter
from orchestra_train.tokenizer import tiny_tokenizer
from orchestra_train.traces import Judged, TracedSource, count_skills, fitted_skills, read_traces, traced_readings

BELIEFS = load_contract("beliefs-1")
TURN = {"role": "answer", "slot": "answer-1", "model": "cloud/a", "outcome": "answered"}
CARD = {"slot": "answer-1", "quality": "Good at sums.", "privacy": "any"}


def run(number=1, score=1.0, question="How many are 2 and 2?", **more):
    return {
        "run_id": f"run_{number}",
        "privacy": "any",
        "turns": [TURN],
        "feedback": {"score": score},
        "domains": {"math": 0.75},
        "texts": {"messages": [{"role": "user", "content": question}], "answer": "4"},
        "card": CARD,
        **more,
    }


def read(tmp_path, *runs):
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in runs))
    return read_traces(path)


def test_a_judged_run_becomes_one_example_with_its_score(tmp_path):
    [reading] = traced_readings(read(tmp_path, run(score=0.25)).judged)
    assert reading.problem == "How many are 2 and 2?"
    assert [(tool.quality, tool.value) for tool in reading.tools] == [("Good at sums.", 0.25)]
    assert reading.recorded


def test_measured_skills_of_a_card_are_read_in_the_gateways_words(tmp_path):
    card = {**CARD, "skills": {"law": 0.9}}
    [reading] = traced_readings(read(tmp_path, run(card=card)).judged)
    assert [tool.quality for tool in reading.tools] == ["Good at sums. In tests: excellent at law."]


@pytest.mark.parametrize("privacy", ["zdr", "self_hosted", "local", "secret", None, ["any"]])
def test_texts_of_a_private_run_are_not_read_even_where_a_file_has_them(tmp_path, privacy):
    class Watched(dict):
        def __getitem__(self, key):
            assert key != "texts"
            return super().__getitem__(key)

    traces = read(tmp_path, run(question="my secret illness", privacy=privacy))
    assert traced_readings(traces.judged) == []
    assert "illness" not in repr(traces)
    assert [one.score for one in traces.judged] == [1.0]
    from orchestra_train.traces import _problem

    assert _problem(Watched(run(privacy=privacy))) == ""


def test_a_run_that_does_not_say_its_privacy_is_private(tmp_path):
    silent = run()
    del silent["privacy"]
    assert traced_readings(read(tmp_path, silent).judged) == []


def test_answers_that_lean_on_what_was_found_are_counted_and_not_learnt_from(tmp_path):
    searched = run(turns=[{**TURN, "role": "search", "outcome": "documents: 3"}, TURN])
    traces = read(tmp_path, searched)
    assert len(traces.judged) == 1
    assert traced_readings(traces.judged) == []


def test_lines_that_are_no_judged_run_are_counted_and_passed_over(tmp_path):
    unjudged = run(2)
    del unjudged["feedback"]
    failed = run(3, turns=[{**TURN, "outcome": "failed: timeout"}])
    broken = ["not json", "[]", "7", '{"run_id": "x"', run(4, score=1.5), run(5, score="good"), run(6, domains=[1])]
    traces = read(tmp_path, run(1), unjudged, failed, *broken)
    assert [one.model for one in traces.judged] == ["cloud/a"]
    assert traces.passed_over == 9


def test_the_last_line_of_a_run_counts(tmp_path):
    assert [one.score for one in read(tmp_path, run(score=0), run(score=1)).judged] == [1.0]


def judged(model, score, **domains):
    return Judged(model, "answer-1", score, domains, "", "")


def test_counts_are_those_of_the_gateway():
    counts = count_skills([judged("m", 1, math=0.75), judged("m", 0.5, math=0.25, code=0.75), judged("n", 0)])
    assert counts["m"]["math"] == {"right": 0.875, "wrong": 0.125}
    assert counts["m"]["code"] == {"right": 0.375, "wrong": 0.375}
    assert counts["m"][""] == {"right": 0.25, "wrong": 0.0}
    assert counts["n"] == {"": {"right": 0.0, "wrong": 1.0}}


def test_skills_are_fitted_where_there_are_answers_enough():
    answers = [judged("m", 1, math=1.0)] * 40 + [judged("m", 0, law=1.0)] * 40 + [judged("m", 0, art=1.0)] * 2
    skills = fitted_skills(count_skills(answers))["m"]
    assert set(skills) == {"math", "law"}
    assert skills["law"] < 0.15 < 0.85 < skills["math"] < 1


def learn(tmp_path, monkeypatch, runs, *given):
    """`from-traces` over this content of a file; None for no file."""
    file = tmp_path / "runs.jsonl"
    if runs is not None:
        file.write_bytes(runs)
    where = ["--runs", str(file), "--out", str(tmp_path / "out"), *given]
    monkeypatch.setattr(sys, "argv", ["orchestra-train", "from-traces", *where])
    cli.main()


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        (None, r"--runs: there is no file .*runs export"),
        (b"", r"holds no judged run \(0 lines passed over\): give feedback"),
        (b"GGUF\xff\xfe\n\x00\n", r"holds no judged run \(2 lines passed over\)"),
    ],
)
def test_runs_that_cannot_teach_anything_are_named(runs, told, tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match=told):
        learn(tmp_path, monkeypatch, runs)


def test_why_judged_answers_are_only_counted_is_said_and_ends_a_training_without_any(tmp_path, monkeypatch, capsys):
    silent = run(3)
    del silent["texts"]
    searched = run(4, turns=[{**TURN, "role": "search", "outcome": "documents: 3"}, TURN])
    lines = [run(1, privacy="zdr"), run(2, privacy="local"), silent, searched, run(5, card={}), run(6, question="")]
    runs = "\n".join(json.dumps(one) for one in lines).encode()
    learn(tmp_path, monkeypatch, runs)
    assert json.loads(capsys.readouterr().out)["only_counted"] == {
        "private": 2,
        "no texts kept": 1,
        "something was looked up or calculated": 1,
        "its slot is not served any more": 1,
        "no question, or too long": 1,
    }
    (tmp_path / "out/skills.json").unlink()
    with pytest.raises(SystemExit, match=r"nothing to train on \(2 × private, .*trace: \{ texts: on \}"):
        learn(tmp_path, monkeypatch, runs, "--base", "never-opened.gguf")
    assert (tmp_path / "out/skills.json").exists()


def test_a_base_that_does_not_fit_is_named_with_the_way_out(tmp_path, monkeypatch):
    runs = json.dumps(run()).encode()
    missing, junk, adapter = tmp_path / "missing.gguf", tmp_path / "junk.gguf", tmp_path / "adapter.gguf"
    junk.write_bytes(b"no model at all, but long enough for a header")
    source = tiny_model("llama", tiny_tokenizer(["a"], 300), seed=1)
    add_adapter(source.model, rank=4, alpha=8)
    write_adapter(source, adapter, BELIEFS)
    for base, told in (
        (missing, "--base: there is no .*missing.gguf; .*models pull"),
        (junk, "--base: .*junk.gguf cannot be trained on: .*magic"),
        (adapter, "--base: .*adapter.gguf is no whole model: it lacks"),
    ):
        with pytest.raises(SystemExit, match=told):
            learn(tmp_path, monkeypatch, runs, "--base", str(base))


def test_the_command_learns_from_feedback_and_goes_on_where_it_was(tmp_path, monkeypatch, capsys):
    words = [*BELIEFS["grades"] * 50, "Good at sums. How many are 2 and 2?"] * 5
    base = tmp_path / "base.gguf"
    write_model(tiny_model("llama", tiny_tokenizer(words, 350), seed=1, width=32, feed_forward=64), base, "F32")
    runs = tmp_path / "runs.jsonl"
    lines = [json.dumps(run(number, score=1.0, question=f"How many are {number} and 2?")) for number in range(20)]
    runs.write_text("\n".join(lines))
    out = tmp_path / "out"
    given = ["--runs", str(runs), "--out", str(out), "--base", str(base), "--rank", "4", "--learning-rate", "0.01"]
    monkeypatch.setattr(sys, "argv", ["orchestra-train", "from-traces", *given, "--steps", "6", "--share", "1"])
    cli.main()
    figures = json.loads(capsys.readouterr().out)
    assert (figures["judged"], figures["with_text"], figures["held_out"]) == (20, 20, 4)
    assert figures["nats_after"] < figures["nats_before"]
    assert json.loads((out / "skills.json").read_text())["counts"]["cloud/a"]["math"] == {"right": 15.0, "wrong": 0.0}
    assert torch.load(out / "cards.pt", weights_only=True)["step"] == 6
    cli.main()
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--from", str(out / "cards.pt")])
    with pytest.raises(SystemExit, match="another origin: take another folder"):
        cli.main()
    runs.write_text("\n".join(lines[1:]))
    with pytest.raises(SystemExit, match="another training"):
        cli.main()


def test_the_command_goes_on_from_an_adapter_as_it_is_served(tmp_path, monkeypatch, capsys):
    words = [*BELIEFS["grades"] * 50, "Good at sums. How many are 2 and 2?"] * 5
    source = tiny_model("llama", tiny_tokenizer(words, 350), seed=1, width=32, feed_forward=64)
    base, runs, adapter = tmp_path / "base.gguf", tmp_path / "runs.jsonl", tmp_path / "adapter.gguf"
    write_model(source, base, "F32")
    runs.write_text("\n".join(json.dumps(run(number, question=f"{number} and 2?")) for number in range(20)))

    def nats_before(folder, *given):
        where = ["--runs", str(runs), "--out", str(tmp_path / folder), "--base", str(base), "--rank", "4"]
        monkeypatch.setattr(sys, "argv", ["orchestra-train", "from-traces", *where, "--steps", "1", *given])
        cli.main()
        return json.loads(capsys.readouterr().out)["nats_before"]

    add_adapter(source.model, rank=4, alpha=8)
    for part in source.model.projections().values():
        torch.nn.init.normal_(part.lora_b, std=0.3)
    write_adapter(source, adapter, BELIEFS)
    assert nats_before("adapted", "--from", str(adapter)) != nats_before("bare")
    kept = torch.load(tmp_path / "adapted/cards.pt", weights_only=True)["more"]["settings"]["origin"]
    assert kept == checkpoint_fingerprint(adapter)


def test_a_question_that_was_asked_twice_is_not_learnt_from_and_tested_on(tmp_path, monkeypatch):
    readings = traced_readings(read(tmp_path, *(run(n, question=f"How many are {n % 5}?") for n in range(40))).judged)
    seen = {}

    class Watched(TracedSource):
        def __init__(self, learnt, share):
            seen["learnt"] = {one.problem for one in learnt}
            super().__init__(learnt, share)

    def nats(_, tested):
        seen["tested"] = {one.problem for one in tested}

    monkeypatch.setattr(trace_commands, "TracedSource", Watched)
    monkeypatch.setattr(trace_commands, "_nats", nats)
    monkeypatch.setattr(trace_commands, "open_reader", lambda *_: (None, None))
    monkeypatch.setattr(trace_commands, "train_cards", lambda *_: None)
    told = Namespace(seed=1, held_out=0.4, origin=None, steps=1, learning_rate=0.1, out=tmp_path, share=1.0)
    assert trace_commands._train(told, readings)["held_out"] == 16
    assert len(seen["tested"]) == 2 and len(seen["learnt"]) == 3
    assert not seen["tested"] & seen["learnt"]
