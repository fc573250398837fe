"""Training learns, and a killed run ends like one that was never killed."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from orchestra_train import cli
from orchestra_train.contract.load import load_contract
from orchestra_train.gguf_file import tiny_model, write_model
from orchestra_train.grpo import GrpoSettings, _backward, measure, play, train_grpo
from orchestra_train.journal import Journal
from orchestra_train.model import add_adapter
from orchestra_train.policy import BeliefsPolicy, SlotsPolicy, Turn
from orchestra_train.reward import REWARDS
from orchestra_train.sft import SftSettings, random_turn, train_sft
from orchestra_train.tokenizer import TextTokenizer, tiny_tokenizer
from orchestra_train.world.episode import fresh_episode
from orchestra_train.world.roster import WorldShape

BELIEFS, SLOTS = load_contract("beliefs-1"), load_contract("slots-2")
SHAPE = WorldShape(slots=(3, 3), specialists=False, named_domains=(0, 0), helpers=False)
TOKENIZER = tiny_tokenizer(BELIEFS["grades"] * 50 + ["Is good at everything. Problem: how many?"] * 20, 350)


def fresh_policy(kind: str = "beliefs", adapter: bool = False) -> BeliefsPolicy | SlotsPolicy:
    source = tiny_model("llama", TOKENIZER, seed=1, width=32, feed_forward=64)
    if adapter:
        add_adapter(source.model, rank=4, alpha=8)
    tokenizer = TextTokenizer(source.metadata)
    if kind == "slots":
        return SlotsPolicy(source.model, tokenizer, SLOTS)
    return BeliefsPolicy(source.model, tokenizer, BELIEFS)


def weights_of(policy: BeliefsPolicy | SlotsPolicy) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in policy.model.parameters()])


class Killed(Exception):
    pass


def kill_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends after it logged a step and before it saved it."""
    log = Journal.log

    def log_and_die(self: Journal, now: int, **figures: float) -> None:
        log(self, now, **figures)
        if now == step:
            raise Killed

    monkeypatch.setattr(Journal, "log", log_and_die)


@pytest.mark.parametrize("adapter", [False, True])
def test_sft_goes_on_after_a_kill_with_the_same_losses(
    adapter: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SftSettings(8, episodes=2, checkpoint_every=3)
    torch.manual_seed(0)
    whole = fresh_policy(adapter=adapter)
    expected = train_sft(whole, SHAPE, SLOTS, settings, tmp_path / "whole").read()

    with monkeypatch.context() as patched:
        kill_at(4, patched)
        torch.manual_seed(0)
        with pytest.raises(Killed):
            train_sft(fresh_policy(adapter=adapter), SHAPE, SLOTS, settings, tmp_path / "cut")
    torch.manual_seed(0)
    resumed = fresh_policy(adapter=adapter)
    assert train_sft(resumed, SHAPE, SLOTS, settings, tmp_path / "cut").read() == expected
    assert torch.equal(weights_of(resumed), weights_of(whole))


def test_grpo_goes_on_after_a_kill_with_the_same_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = GrpoSettings(5, episodes=2, rollouts=3, checkpoint_every=2)
    whole = fresh_policy()
    expected = train_grpo(whole, SHAPE, SLOTS, settings, tmp_path / "whole").read()
    with monkeypatch.context() as patched:
        kill_at(3, patched)
        with pytest.raises(Killed):
            train_grpo(fresh_policy(), SHAPE, SLOTS, settings, tmp_path / "cut")
    resumed = fresh_policy()
    assert train_grpo(resumed, SHAPE, SLOTS, settings, tmp_path / "cut").read() == expected
    assert torch.equal(weights_of(resumed), weights_of(whole))


def test_a_finished_run_is_not_taken_for_one_with_other_settings(tmp_path: Path) -> None:
    settings = GrpoSettings(1, episodes=2, rollouts=3, reward="gdpo")
    train_grpo(fresh_policy(), SHAPE, SLOTS, settings, tmp_path)
    with pytest.raises(SystemExit, match="another reward"):
        train_grpo(fresh_policy(), SHAPE, SLOTS, replace(settings, reward="paper"), tmp_path)
    longer = train_grpo(fresh_policy(), SHAPE, SLOTS, replace(settings, steps=2), tmp_path)
    assert [line["step"] for line in longer.read()] == [0, 1]
    train_sft(fresh_policy(), SHAPE, SLOTS, SftSettings(1, episodes=1), tmp_path)
    with pytest.raises(SystemExit, match="another seed"):
        train_sft(fresh_policy(), SHAPE, SLOTS, SftSettings(1, episodes=1, seed=2), tmp_path)


@pytest.mark.parametrize(("kind", "steps"), [("beliefs", 30), ("slots", 15)])
def test_the_warm_start_brings_unseen_turns_nearer_to_what_the_world_knows(
    kind: str, steps: int, tmp_path: Path
) -> None:
    policy = fresh_policy(kind)
    rng = np.random.default_rng(77)
    unseen = [random_turn(rng, SHAPE, SLOTS) for _ in range(12)]
    before = policy.warm_start_loss(unseen).item()
    journal = train_sft(policy, SHAPE, SLOTS, SftSettings(steps, episodes=4, learning_rate=3e-3), tmp_path)
    assert policy.warm_start_loss(unseen).item() < before - 0.03
    assert journal.plot().stat().st_size > 1000


@pytest.mark.parametrize("kind", ["beliefs", "slots"])
def test_every_rollout_follows_the_rules(kind: str) -> None:
    rng = np.random.default_rng(0)
    groups = play(fresh_policy(kind), [fresh_episode(rng, SHAPE) for _ in range(3)], 4, SLOTS, rng)
    for rollout in (one for group in groups for one in group):
        assert rollout.run.done
        assert len(rollout.decisions) <= 6
        assert all(0 <= number < len(turn.choices) for turn, number in rollout.decisions)


@pytest.mark.parametrize("failures", [0.0, 1.0])
def test_a_run_whose_tools_all_failed_ended_without_an_answer(failures: float) -> None:
    rng = np.random.default_rng(0)
    episodes = [fresh_episode(rng, replace(SHAPE, failures=failures))]
    [answered] = measure(play(fresh_policy(), episodes, 4, SLOTS, rng)).answered
    assert answered.tolist() == [failures == 0] * 4


@pytest.mark.parametrize("kind", ["beliefs", "slots"])
def test_runs_that_lost_different_tools_are_not_taken_for_one_place(kind: str) -> None:
    rng = np.random.default_rng(0)
    episodes = [fresh_episode(rng, replace(SHAPE, failures=0.4)) for _ in range(3)]
    policy = fresh_policy(kind)
    groups = play(policy, episodes, 4, SLOTS, rng)
    told, log_probabilities = [], policy.log_probabilities

    def watched(turns: Sequence[Turn]) -> list[torch.Tensor]:
        told.extend(len(turn.choices) for turn in turns)
        return log_probabilities(turns)

    policy.log_probabilities = watched
    _backward(policy, groups, [np.ones(4)] * 3, 0.0)
    places = {
        (rollout.group, turn.run.turns_left, turn.run.lost, str(turn.run.evidence))
        for group in groups
        for rollout in group
        for turn, _ in rollout.decisions
    }
    assert any(lost for _, _, lost, _ in places)
    assert len(told) == len(places)


@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("kept", ["component", "paper", "none"])
def test_each_reward_and_filter_takes_a_step(reward: str, kept: str, tmp_path: Path) -> None:
    policy = fresh_policy()
    before = weights_of(policy)
    settings = GrpoSettings(1, episodes=4, rollouts=4, reward=reward, filter=kept)
    [line] = train_grpo(policy, SHAPE, SLOTS, settings, tmp_path).read()
    assert all(np.isfinite(value) for value in line.values())
    assert (line["groups_kept"] > 0) != torch.equal(weights_of(policy), before)


def test_a_half_written_line_of_metrics_is_forgotten(tmp_path: Path) -> None:
    journal = train_sft(fresh_policy(), SHAPE, SLOTS, SftSettings(2, episodes=1), tmp_path)
    with journal.metrics.open("a") as lines:
        lines.write(json.dumps({"step": 2, "loss": 1})[:9])
    assert [line["step"] for line in journal.read()] == [0, 1]


def test_figures_that_only_some_steps_have_are_plotted_all_the_same(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "cards")
    journal.log(0, loss=2.0, found=0.5)
    journal.log(1, loss=1.0, unseen=0.1)
    assert journal.plot().stat().st_size > 1000


def test_the_seed_of_the_command_draws_other_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tiny_model("llama", TOKENIZER, seed=1, width=32, feed_forward=64), tmp_path / "base.gguf", "F32")

    def first_loss(seed: int) -> float:
        out = tmp_path / str(seed)
        given = ["--base", str(tmp_path / "base.gguf"), "--out", str(out), "--steps", "1", "--episodes", "1"]
        monkeypatch.setattr(sys, "argv", ["orchestra-train", "sft", *given, "--seed", str(seed)])
        cli.main()
        return json.loads((out / "sft.jsonl").read_text())["loss"]

    assert first_loss(1) != pytest.approx(first_loss(2), abs=1e-4)
