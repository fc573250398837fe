"""Two processes with gloo train like one: equal losses, equal figures, equal weights."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

HERE = Path(__file__).parent


def train(kind: str, processes: int, folder: Path, how: str = "whole") -> None:
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE)}
    command = [sys.executable, *(launch if processes > 1 else []), str(HERE / "train_one.py"), kind, str(folder), how]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode == 0) != ("killed" in how), done.stderr[-2000:]


@pytest.mark.parametrize("kind", ["sft", "grpo"])
def test_two_processes_train_like_one(kind: str, tmp_path: Path) -> None:
    train(kind, 1, tmp_path / "one")
    train(kind, 2, tmp_path / "two")
    assert_alike(kind, tmp_path / "one", tmp_path / "two")


@pytest.mark.parametrize(("kind", "how"), [("sft", "sharded"), ("sft", "sharded adapter"), ("grpo", "sharded")])
def test_two_processes_that_share_one_model_out_train_like_one_that_holds_it(
    kind: str, how: str, tmp_path: Path
) -> None:
    train(kind, 1, tmp_path / "one", how.replace("sharded", "whole", 1))
    train(kind, 2, tmp_path / "two", how)
    assert_alike(kind, tmp_path / "one", tmp_path / "two")


def test_a_shared_out_model_goes_on_after_a_kill_where_it_stood(tmp_path: Path) -> None:
    train("sft", 1, tmp_path / "one")
    train("sft", 2, tmp_path / "two", "sharded killed")
    assert torch.load(tmp_path / "two" / "sft.pt", weights_only=True)["step"] == 3
    train("sft", 2, tmp_path / "two", "sharded")
    weights = [torch.load(tmp_path / name / "sft.pt", weights_only=True)["model"] for name in ("one", "two")]
    for name, value in weights[0].items():
        assert torch.allclose(value, weights[1][name], atol=1e-4), name


def test_a_shared_out_model_in_half_precision_learns_nearly_the_same(tmp_path: Path) -> None:
    losses = []
    for how, processes in (("whole", 1), ("sharded half", 2)):
        train("sft", processes, tmp_path / how, how)
        losses.append([line["loss"] for line in lines_of(tmp_path / how, "sft")])
    assert losses[1] != losses[0]
    assert losses[1] == pytest.approx(losses[0], abs=0.02)


def lines_of(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{kind}.jsonl").read_text().splitlines()]


def assert_alike(kind: str, one: Path, two: Path) -> None:
    alone, together = lines_of(one, kind), lines_of(two, kind)
    assert len(together) == len(alone) > 3
    for line, expected in zip(together, alone, strict=True):
        assert line == pytest.approx(expected, abs=1e-4)
    weights = [torch.load(folder / f"{kind}.pt", weights_only=True)["model"] for folder in (one, two)]
    for name, value in weights[0].items():
        assert torch.allclose(value, weights[1][name], atol=1e-4), name
