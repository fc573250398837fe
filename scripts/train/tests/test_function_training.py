"""A tiny model learns to call functions: reward rises, a killed run ends alike, and the command does all of it."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from test_training import Killed, kill_at

from easy_domain import LAMPS, SEEN, TOKENIZER, UNSEEN, tiny_policy
from orchestra_train import cli
from orchestra_train.gguf_file import tiny_model, write_model
from orchestra_train.grpo import GrpoSettings
from orchestra_train.reward import REWARDS
from orchestra_train.sft import SftSettings
from orchestra_train.toolscale.dataset import save_domain, save_tasks
from orchestra_train.toolscale.function_policy import FunctionPolicy
from orchestra_train.toolscale.function_stages import learn
from orchestra_train.toolscale.function_training import imitate_ways, play, reinforce_runs

# Short on purpose: it leaves something that only runs can teach.
WARM = SftSettings(150, episodes=4, learning_rate=5e-3)
# Enough that it rises on every kind of CPU, whose sums round differently.
GRPO = GrpoSettings(120, episodes=4, rollouts=8, learning_rate=5e-4)

Weights = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Weights:
    policy = tiny_policy()
    imitate_ways(policy, SEEN, WARM, tmp_path_factory.mktemp("warm"))
    return policy.model.state_dict()


def warm_policy(warm: Weights) -> FunctionPolicy:
    policy = tiny_policy()
    policy.model.load_state_dict(warm)
    return policy


def share_solved(policy: FunctionPolicy) -> float:
    """Of runs drawn as training draws them, of every task that it sees."""
    return float(np.mean([run.outcome for group in play(policy, SEEN.cases(), 16, [99]) for run in group]))


def test_reward_rises_over_whole_runs(warm: Weights, tmp_path: Path) -> None:
    policy = warm_policy(warm)
    before = share_solved(policy)
    reinforce_runs(policy, SEEN, GRPO, tmp_path)
    assert share_solved(policy) > before + 0.1


@pytest.mark.parametrize("reward", REWARDS)
def test_each_reward_takes_a_step(reward: str, warm: Weights, tmp_path: Path) -> None:
    policy = warm_policy(warm)
    settings = GrpoSettings(1, episodes=6, rollouts=8, reward=reward)
    [line] = reinforce_runs(policy, SEEN, settings, tmp_path).read()
    assert all(np.isfinite(value) for value in line.values())
    changed = any(not torch.equal(value, warm[name]) for name, value in policy.model.state_dict().items())
    assert changed == (line["groups_kept"] > 0)


def test_a_killed_run_ends_like_one_that_was_never_killed(
    warm: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sft, grpo = SftSettings(2, episodes=2), GrpoSettings(4, episodes=2, rollouts=4, checkpoint_every=2)
    whole = warm_policy(warm)
    expected = learn(whole, SEEN, UNSEEN, sft, grpo, tmp_path / "whole")
    with monkeypatch.context() as patched:
        kill_at(3, patched)
        with pytest.raises(Killed):
            learn(warm_policy(warm), SEEN, UNSEEN, sft, grpo, tmp_path / "cut")
    resumed = warm_policy(warm)
    assert learn(resumed, SEEN, UNSEEN, sft, grpo, tmp_path / "cut") == expected
    for name in ("sft.jsonl", "grpo.jsonl", "functions.json"):
        assert (tmp_path / "cut" / name).read_text() == (tmp_path / "whole" / name).read_text()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name


def test_the_command_trains_measures_and_leaves_what_export_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, base, out = tmp_path / "data", tmp_path / "base.gguf", tmp_path / "out"
    save_domain(data, LAMPS)
    save_tasks(data, [*SEEN.tasks, *UNSEEN.tasks])
    write_model(tiny_model("llama", TOKENIZER, 1, width=32, feed_forward=64), base, "F32")

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["orchestra-train", *words])
        cli.main()
        return capsys.readouterr().out

    policy = ("--base", str(base), "--out", str(out), "--rank", "4")
    steps = ("--sft-steps", "2", "--steps", "1", "--episodes", "2", "--rollouts", "2", "--turn-tokens", "8")
    told = run("toolscale-train", "--data", str(data), *policy, *steps, "--experts")
    assert "| level 0 | 2 | 0.00 | 0.00 | 0.00 |" in told
    assert list(json.loads((out / "functions.json").read_text())) == ["start", "sft", "grpo"]
    run("export", *policy, "--file", str(tmp_path / "adapter.gguf"))
    assert (tmp_path / "adapter.gguf").stat().st_size > 1000
