"""`sft` and `grpo` start from what `cards` trained, in a folder of their own."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from test_training import BELIEFS, SHAPE, SLOTS, TOKENIZER, Killed, kill_at

from orchestra_train import card_commands, cli, device, train_commands
from orchestra_train.gguf_file import GgufModel, tiny_model, write_adapter, write_model
from orchestra_train.grpo import GrpoSettings
from orchestra_train.journal import Journal
from orchestra_train.model import add_adapter
from orchestra_train.origin import load_learnt, probes_of
from orchestra_train.policy import BeliefsPolicy
from orchestra_train.reading.hints import Probes
from orchestra_train.reading.reader import Reader
from orchestra_train.reading.rosters import Reading, Tool
from orchestra_train.reading.train import CardSettings, train_cards
from orchestra_train.sft import random_turn
from orchestra_train.tokenizer import TextTokenizer

Command = Callable[..., None]


def fresh_source() -> GgufModel:
    return tiny_model("llama", TOKENIZER, seed=1, width=32, feed_forward=64)


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a subcommand on the tiny base of rank 4, in a folder by name."""
    write_model(fresh_source(), tmp_path / "base.gguf", "F32")
    monkeypatch.setattr(train_commands, "WHOLE_WORLD", SHAPE)

    def run(name: str, folder: str, *given: str) -> None:
        where = ["--base", str(tmp_path / "base.gguf"), "--out", str(tmp_path / folder)]
        monkeypatch.setattr(sys, "argv", ["orchestra-train", name, *where, "--rank", "4", "--device", "cpu", *given])
        cli.main()

    return run


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    """What two steps of card reading left, in `cards.pt`."""
    source = fresh_source()
    add_adapter(source.model, rank=4, alpha=8)
    reader = Reader(source.model, TextTokenizer(source.metadata), BELIEFS)
    train_cards(reader, CardSettings(2, problems=1, cards=2, learning_rate=0.05, check_every=99), tmp_path)
    return reader


def of_turns(*given: str, cards: Path, episodes: str = "2") -> list[str]:
    return ["--from", str(cards), "--episodes", episodes, *given]


@pytest.mark.parametrize(("stage", "half"), [("sft", False), ("grpo", False), ("grpo", True)])
def test_a_stage_starts_where_card_reading_ended(
    stage: str, half: bool, command: Command, read: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[BeliefsPolicy] = []

    def look(policy: BeliefsPolicy, *_: Any) -> Journal:
        opened.append(policy)
        return Journal(tmp_path / "own", stage)

    monkeypatch.setattr(train_commands, f"train_{stage}", look)
    monkeypatch.setattr(device, "_cpu_has_bfloat16", lambda: True)
    precision = ["--half"] if half else []
    command(stage, "own", *of_turns("--steps", "1", *precision, cards=tmp_path / "cards.pt"))
    [policy] = opened
    projections = list(policy.model.projections().values())
    assert {one.weight.dtype for one in projections} == {torch.bfloat16 if half else torch.float32}
    assert all(one.lora_b.dtype == torch.float32 and one.lora_b.requires_grad for one in projections)
    rng = np.random.default_rng(4)
    turns = [random_turn(rng, SHAPE, SLOTS) for _ in range(4)]
    for turn, found in zip(turns, policy.grades(turns), strict=True):
        episode = turn.run.episode
        tools = tuple(Tool(slot.role, slot.quality, 0.5) for slot in episode.slots)
        [expected] = read.grades([read.tree(Reading(episode.problem, "", turn.run.evidence, tools))])
        assert torch.allclose(found, expected, atol=0.05 if half else 1e-5)


def test_a_killed_run_goes_on_from_its_own_checkpoint_and_is_exported(
    command: Command, read: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_commands, "GrpoSettings", partial(GrpoSettings, rollouts=4, checkpoint_every=1))
    monkeypatch.setattr(device, "_cpu_has_bfloat16", lambda: True)
    given = of_turns("--steps", "3", "--half", cards=tmp_path / "cards.pt")
    command("grpo", "whole", *given)
    with monkeypatch.context() as patched:
        kill_at(1, patched)
        with pytest.raises(Killed):
            command("grpo", "cut", *given)
    command("grpo", "cut", *given)
    assert (tmp_path / "cut/grpo.jsonl").read_text() == (tmp_path / "whole/grpo.jsonl").read_text()

    command("export", "cut", "--file", str(tmp_path / "adapter.gguf"))
    saved = torch.load(tmp_path / "whole/grpo.pt", weights_only=True)["model"]
    tensors = gguf.GGUFReader(tmp_path / "adapter.gguf").tensors
    written = {one.name.replace(".weight.", "."): one.data for one in tensors}
    assert written.keys() == saved.keys()
    for name, value in saved.items():
        assert np.array_equal(written[name], value.detach().half().numpy())
    first = torch.load(tmp_path / "cards.pt", weights_only=True)["model"]
    assert any(not torch.equal(first[name], value) for name, value in saved.items())


def test_another_origin_another_rank_and_a_used_folder_are_refused(
    command: Command, read: Reader, tmp_path: Path
) -> None:
    cards = tmp_path / "cards.pt"
    with pytest.raises(SystemExit, match="no checkpoint"):
        command("sft", "own", *of_turns("--steps", "1", cards=tmp_path / "nothing.pt"))
    with pytest.raises(SystemExit, match="another --rank or --base"):
        command("sft", "own", *of_turns("--steps", "1", "--rank", "8", cards=cards))
    command("sft", "own", *of_turns("--steps", "1", cards=cards, episodes="1"))
    moved = cards.rename(tmp_path / "moved.pt")
    command("sft", "own", *of_turns("--steps", "2", cards=moved, episodes="1"))
    other = tmp_path / "own/sft.pt"
    for origin in (["--from", str(other)], []):
        with pytest.raises(SystemExit, match="another origin"):
            command("sft", "own", "--steps", "2", "--episodes", "1", *origin)
    with pytest.raises(SystemExit, match="take another folder"):
        command("grpo", "own", *of_turns("--steps", "1", cards=moved))


def test_an_adapter_is_written_before_the_report_that_may_be_cut_short(
    command: Command, read: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise Killed

    monkeypatch.setattr(card_commands, "evaluate_choices", killed)
    file = tmp_path / "new/adapter.gguf"
    with pytest.raises(Killed):
        command("cards-report", ".", "--adapter", str(file))
    assert len(gguf.GGUFReader(file).tensors) == 2 * len(list(fresh_source().model.projections()))


def test_weights_are_exported_under_the_contract_that_they_were_trained_with(command: Command, tmp_path: Path) -> None:
    command("sft", "own", "--contract", "slots-2", "--steps", "1", "--episodes", "1")
    for stage in (("export", "own", "--file", str(tmp_path / "own.gguf")), ("grpo", "own", "--steps", "1")):
        with pytest.raises(SystemExit, match="--contract beliefs-1: .*sft.pt was trained with slots-2"):
            command(*stage)
    command("export", "own", "--file", str(tmp_path / "own.gguf"), "--contract", "slots-2")
    assert gguf.GGUFReader(tmp_path / "own.gguf").fields["orchestra.contract"].contents() == "slots-2"


@pytest.mark.parametrize("name", ["cards.pt", "adapter.gguf"])
def test_what_is_no_checkpoint_and_no_adapter_is_named(name: str, command: Command, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"no such thing")
    with pytest.raises(SystemExit, match=f"{name} is (no adapter|neither)"):
        command("sft", "own", *of_turns("--steps", "1", cards=tmp_path / name))
    with pytest.raises(SystemExit, match="is no adapter in GGUF"):
        command("sft", "own", *of_turns("--steps", "1", cards=tmp_path / "base.gguf"))


def test_an_adapter_reads_what_its_checkpoint_reads_and_brings_no_probes(read: Reader, tmp_path: Path) -> None:
    source = fresh_source()
    add_adapter(source.model, rank=4, alpha=8)
    load_learnt(source.model, tmp_path / "cards.pt")
    write_adapter(source, tmp_path / "adapter.gguf", BELIEFS)

    # The file says by what its product is multiplied, whatever the model that takes it in says.
    for alpha in (8, 4):
        model = fresh_source().model
        add_adapter(model, rank=4, alpha=alpha)
        load_learnt(model, tmp_path / "adapter.gguf")
        for name, projection in model.projections().items():
            assert torch.allclose(projection.merged(), source.model.projections()[name].merged(), atol=2e-3), name
            assert not torch.allclose(projection.merged(), projection.weight, atol=4e-3), name
    assert probes_of(tmp_path / "adapter.gguf") is None
    assert probes_of(tmp_path / "cards.pt").keys() == Probes(32, source.model.config.layers).state_dict().keys()


def test_a_cpu_that_would_emulate_half_precision_computes_in_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cpu = torch.device("cpu")
    for known, half in (({"avx512_bf16": True}, True), ({"avx2": True, "amx_bf16": False}, False)):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda known=known: known)
        assert device.computes_in_half(cpu, True) is half
        assert ("computes in float32" in capsys.readouterr().err) is not half
    assert not device.computes_in_half(cpu, None)
    assert not capsys.readouterr().err
