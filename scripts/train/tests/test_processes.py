"""Two processes with gloo train like one: equal losses, equal figures, equal weights."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent


def train(kind: str, processes: int, folder: Path, how: str = "whole") -> None:
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE)}
    command = [sys.executable, *(launch if processes > 1 else []), str(HERE / "train_one.py"), kind, str(folder), how]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


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


def assert_alike(kind: str, one: Path, two: Path) -> None:
    alone, together = (
        [json.loads(line) for line in (folder / f"{kind}.jsonl").read_text().splitlines()] for folder in (one, two)
    )
    assert len(together) == len(alone) > 3
    for line, expected in zip(together, alone, strict=True):
        assert line == pytest.approx(expected, abs=1e-4)
    weights = [torch.load(folder / f"{kind}.pt", weights_only=True)["model"] for folder in (one, two)]
    for name, value in weights[0].items():
        assert torch.allclose(value, weights[1][name], atol=1e-4), name
