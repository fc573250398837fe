"""Runs of a policy that writes freely: what is no call scores nothing, stays in its group and is learnt from."""

from pathlib import Path

import numpy as np
import pytest
import torch

from orchestra_train.contract.load import load_contract
from orchestra_train.contract.render import choice_segments, join_segments
from orchestra_train.gguf_file import tiny_model
from orchestra_train.grpo import GrpoSettings, _weigh, group_of, measure, train_grpo
from orchestra_train.policy import Turn
from orchestra_train.reward import RunningSpread
from orchestra_train.rollout import Rollout, Written
from orchestra_train.tokenizer import TextTokenizer, tiny_tokenizer
from orchestra_train.world.episode import Run, fresh_episode
from orchestra_train.world.roster import WorldShape
from orchestra_train.written import WritingPolicy, play_written, written_backward

SLOTS = load_contract("slots-2")
SHAPE = WorldShape(slots=(3, 3), helpers=False, failures=0, limited=0)
SOURCE = tiny_model("llama", tiny_tokenizer(["Is good at everything."] * 20, 350), seed=1, width=32, feed_forward=64)
TOKENIZER = TextTokenizer(SOURCE.metadata)


class Dictated(WritingPolicy):
    """Writes nonsense in every n-th turn, else the call of the first choice that ends the run."""

    def __init__(self, every: int) -> None:
        super().__init__(SOURCE.model, TOKENIZER, SLOTS)
        self.asked, self.every = 0, every

    def write(self, turns: list[Turn], rng: np.random.Generator) -> list[Written]:
        return [self._dictate(turn) for turn in turns]

    def _dictate(self, turn: Turn) -> Written:
        self.asked += 1
        final = next(choice for choice in turn.choices if choice["role"] == "answer")
        spoken = choice_segments("answer", final["id"], SLOTS)
        ids = (
            TOKENIZER.encode("I would rather not.")
            if self.asked % self.every == 0
            else TOKENIZER.encode_segments(spoken)
        )
        return self.read(turn, ids, TOKENIZER.decode(ids))


def first_turn(seed: int = 0) -> Turn:
    rng = np.random.default_rng(seed)
    run = Run(fresh_episode(rng, SHAPE), SLOTS, rng)
    return Turn(run, run.choices())


def test_a_call_that_is_offered_is_read_as_its_choice_and_anything_else_says_why_not() -> None:
    policy, turn = WritingPolicy(SOURCE.model, TOKENIZER, SLOTS), first_turn()
    choice = turn.choices[1]
    text = join_segments(choice_segments(choice["role"], choice["id"], SLOTS))
    assert policy.read(turn, [], text).choice == choice
    assert policy.read(turn, [], text.replace(choice["id"], "answer-99")).reason == "unknown_slot"
    assert policy.read(turn, [], "Hello.").reason == "no_call"


def test_an_untrained_policy_writes_no_calls_and_every_run_scores_nothing() -> None:
    rng = np.random.default_rng(1)
    groups = play_written(
        WritingPolicy(SOURCE.model, TOKENIZER, SLOTS, most=6), [fresh_episode(rng, SHAPE)], 3, SLOTS, rng
    )
    measured = group_of(groups[0])
    assert measured.malformed.all()
    assert (measured.outcome == 0).all()


@pytest.mark.parametrize("reward", ["gated_gdpo", "gdpo", "sum"])
def test_a_malformed_run_stays_in_its_group_below_every_right_one(reward: str) -> None:
    rng = np.random.default_rng(3)
    groups = play_written(Dictated(3), [fresh_episode(rng, SHAPE) for _ in range(8)], 6, SLOTS, rng)
    settings = GrpoSettings(1, reward=reward, filter="component")
    weights, kept = _weigh(measure(groups), settings, RunningSpread())
    assert any(kept)
    seen = 0
    for group, row, stays in zip(groups, weights, kept, strict=True):
        measured = group_of(group)
        assert measured.malformed.sum() == 2
        assert (measured.outcome[measured.malformed] == 0).all()
        if stays and reward == "gated_gdpo" and measured.outcome.any():
            seen += 1
            assert row[measured.malformed].max() < row[measured.outcome > 0].min()
            assert (row[measured.malformed] < 0).all()
    assert seen > 0 or reward != "gated_gdpo"


def test_the_paper_filter_takes_malformed_runs_out() -> None:
    rng = np.random.default_rng(3)
    groups = play_written(Dictated(3), [fresh_episode(rng, SHAPE) for _ in range(8)], 6, SLOTS, rng)
    weights, _ = _weigh(measure(groups), GrpoSettings(1, reward="paper", filter="paper"), RunningSpread())
    for group, row in zip(groups, weights, strict=True):
        assert (row[group_of(group).malformed] == 0).all()


def test_only_the_malformed_turn_of_a_run_is_blamed() -> None:
    policy = WritingPolicy(SOURCE.model, TOKENIZER, SLOTS)
    turn = first_turn()
    fine, bad = Written((5, 6), turn.choices[0]), Written((7, 8, 9), None, "no_call")
    whole = Rollout(0, turn.run, [(turn, fine), (turn, bad)], malformed="no_call")
    last = Rollout(0, turn.run, [(turn, bad)], malformed="no_call")
    gradients = []
    for rollout in (whole, last):
        policy.model.zero_grad()
        written_backward(policy, [[rollout]], [np.array([-1.0])])
        gradients.append(torch.cat([one.grad.flatten() for one in policy.model.parameters()]))
    assert torch.equal(*gradients)
    assert gradients[0].abs().sum() > 0


def test_the_probability_of_a_text_is_the_product_of_its_tokens() -> None:
    policy, turn = WritingPolicy(SOURCE.model, TOKENIZER, SLOTS), first_turn()
    ids, prefix = [5, 11, 7], policy.tree(turn).prefix
    [found] = policy.token_log_probabilities([turn], [Written(tuple(ids), None)])
    expected = 0.0
    for place, token in enumerate(ids):
        scores = SOURCE.model.logits(SOURCE.model(torch.tensor([prefix + ids[:place]]))[0, -1]).log_softmax(-1)
        expected += scores[token].item()
    assert found.sum().item() == pytest.approx(expected, abs=1e-4)


def test_grpo_takes_a_step_with_malformed_runs_in_the_batch(tmp_path: Path) -> None:
    settings = GrpoSettings(1, episodes=3, rollouts=4, reward="gated_gdpo")
    [line] = train_grpo(Dictated(3), SHAPE, SLOTS, settings, tmp_path).read()
    assert line["malformed"] == pytest.approx(1 / 3)
    assert all(np.isfinite(value) for value in line.values())
