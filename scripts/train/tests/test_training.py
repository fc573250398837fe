"""Training learns, and a killed run ends like one that was never killed."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from orchestra_train.contract.load import load_contract
from orchestra_train.gguf_file import tiny_model
from orchestra_train.grpo import GrpoSettings, play, train_grpo
from orchestra_train.model import add_adapter
from orchestra_train.policy import BeliefsPolicy, SlotsPolicy
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
    from orchestra_train.journal import Journal

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
