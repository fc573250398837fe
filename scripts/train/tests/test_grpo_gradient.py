"""The gradient that rollouts give points where the known world says that expected utility rises."""

import numpy as np
import pytest
import torch

from orchestra_train.contract.load import load_contract
from orchestra_train.gguf_file import tiny_model
from orchestra_train.grpo import GrpoSettings, _backward, _weigh, measure, play
from orchestra_train.policy import BeliefsPolicy, Turn
from orchestra_train.reward import RunningSpread
from orchestra_train.tokenizer import TextTokenizer, tiny_tokenizer
from orchestra_train.world.decide import outlooks, true_beliefs
from orchestra_train.world.episode import Run, fresh_episode
from orchestra_train.world.roster import WorldShape

BELIEFS, SLOTS = load_contract("beliefs-1"), load_contract("slots-2")
SHAPE = WorldShape(
    slots=(3, 3), specialists=False, named_domains=(0, 0), helpers=False, failures=0, limited=0, wishes_in_words=False
)


def gradient(policy: BeliefsPolicy) -> torch.Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in policy.model.parameters()])


@pytest.mark.parametrize(("reward", "least"), [("utility", 0.6), ("gated_gdpo", 0.3)])
def test_many_rollouts_find_the_direction_of_the_known_gradient(reward: str, least: float) -> None:
    metadata = tiny_tokenizer(BELIEFS["grades"] * 50 + ["Is good at everything. Problem: how many?"] * 20, 350)
    source = tiny_model("llama", metadata, seed=1, width=32, feed_forward=64)
    policy = BeliefsPolicy(source.model, TextTokenizer(source.metadata), BELIEFS)
    rng = np.random.default_rng(5)
    episodes = [fresh_episode(rng, SHAPE) for _ in range(4)]

    expected = torch.zeros((), dtype=torch.float64)
    for episode in episodes:
        run = Run(episode, SLOTS, rng)
        turn = Turn(run, run.choices())
        [scores] = policy.log_probabilities([turn])
        worth = [float(one.utility) for one in outlooks(run, turn.choices, true_beliefs(run), SLOTS)]
        expected = expected + (scores.exp() * torch.tensor(worth)).sum()
    (-expected).backward()
    known = gradient(policy)

    policy.model.zero_grad()
    groups = play(policy, episodes, 300, SLOTS, rng)
    weights, _ = _weigh(measure(groups), GrpoSettings(1, reward=reward), RunningSpread())
    _backward(policy, groups, weights, 0.0)
    whole = gradient(policy)
    policy.model.zero_grad()
    _backward(policy, groups, weights, 0.0, at_once=1)
    assert torch.allclose(gradient(policy), whole, atol=1e-5)
    assert torch.nn.functional.cosine_similarity(gradient(policy), known, dim=0).item() > least
