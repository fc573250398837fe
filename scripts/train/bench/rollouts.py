"""Rollouts a CPU second, beside transformers' `generate` on an equal model: one thread, CPU time of this process.

    pip install -e '.[bench]' && python bench/rollouts.py

Both make the same groups: `slots-2`, four episodes, eight rollouts of each. Ours scores the open choices of each
distinct state once; stock generation writes a call of the mean length of a choice for every rollout, with its key-value
cache, one batch a group, as an ordinary GRPO trainer does. With two turns both pay for a second round.
"""

import argparse
import json
import time

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from orchestra_train.contract.load import load_contract
from orchestra_train.gguf_file import tiny_model
from orchestra_train.model import ModelConfig
from orchestra_train.policy import SlotsPolicy
from orchestra_train.rollout import Rollout
from orchestra_train.tokenizer import TextTokenizer, tiny_tokenizer
from orchestra_train.world.episode import Run, fresh_episode
from orchestra_train.world.roster import WorldShape

EPISODES, ROLLOUTS = 4, 8
SHAPE = WorldShape(slots=(4, 4), helpers=False, failures=0, limited=0)


def stock_model(config: ModelConfig) -> LlamaForCausalLM:
    """Equal in shape; what its weights are does not change the time."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=config.vocabulary,
            hidden_size=config.width,
            intermediate_size=config.feed_forward,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            head_dim=config.head_width,
            max_position_embeddings=config.context,
            tie_word_embeddings=True,
        )
    ).eval()


def fresh_groups(policy_rules: dict, rng: np.random.Generator) -> list[list[Rollout]]:
    episodes = [fresh_episode(rng, SHAPE) for _ in range(EPISODES)]
    return [
        [Rollout(number, Run(one.again(rng), policy_rules, rng)) for _ in range(ROLLOUTS)]
        for number, one in enumerate(episodes)
    ]


def state_of(rollout: Rollout) -> str:
    return f"{rollout.group} {rollout.run.evidence}"


@torch.no_grad()
def ours(policy: SlotsPolicy, groups: list[list[Rollout]], turns: int, rng: np.random.Generator) -> None:
    going = [rollout for group in groups for rollout in group]
    for turn in range(turns):
        standing = {state_of(rollout): rollout.turn() for rollout in going}
        found = dict(zip(standing, policy.log_probabilities(list(standing.values())), strict=True))
        for rollout in going:
            choices, chances = standing[state_of(rollout)].choices, found[state_of(rollout)].double().exp().numpy()
            number = int(rng.choice(len(chances), p=chances / chances.sum()))
            advance(rollout, choices[number], turn, turns)


def advance(rollout: Rollout, choice: dict, turn: int, turns: int) -> None:
    """An attempt where another turn follows, so that both sides make as many turns."""
    role = "attempt" if turn + 1 < turns else "answer"
    rollout.run.step({**choice, "role": role, "id": choice["slot"], "delivers": None})


@torch.no_grad()
def stock(
    policy: SlotsPolicy, model: LlamaForCausalLM, groups: list[list[Rollout]], turns: int, rng: np.random.Generator
) -> None:
    for group in groups:
        for turn in range(turns):
            states = [rollout.turn() for rollout in group]
            trees = [policy.tree(state) for state in states]
            longest = max(len(tree.prefix) for tree in trees)
            padded = torch.tensor([[0] * (longest - len(tree.prefix)) + tree.prefix for tree in trees])
            mask = torch.tensor([[0] * (longest - len(tree.prefix)) + [1] * len(tree.prefix) for tree in trees])
            written = round(float(np.mean([len(branch) for branch in trees[0].branches])))
            model.generate(
                padded,
                attention_mask=mask,
                do_sample=True,
                max_new_tokens=written,
                min_new_tokens=written,
                pad_token_id=0,
            )
            for rollout, state in zip(group, states, strict=True):
                advance(rollout, state.choices[int(rng.integers(len(state.choices)))], turn, turns)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rules = load_contract("slots-2")
    rng = np.random.default_rng(0)
    words = [slot.quality for _ in range(100) for slot in fresh_episode(rng, SHAPE).slots]
    shape = {"layers": arguments.layers, "width": arguments.width, "feed_forward": 3 * arguments.width}
    source = tiny_model("llama", tiny_tokenizer(words, 2000), seed=1, heads=4, kv_heads=4, head_width=64, **shape)
    policy = SlotsPolicy(source.model, TextTokenizer(source.metadata), rules)
    peer = stock_model(source.model.config)
    for turns in (1, 2):
        seconds: dict[str, list[float]] = {"ours": [], "stock": []}
        for repeat in range(arguments.repeats):
            for name in seconds:
                groups = fresh_groups(rules, np.random.default_rng(repeat))
                start = time.process_time()
                if name == "ours":
                    ours(policy, groups, turns, rng)
                else:
                    stock(policy, peer, groups, turns, rng)
                seconds[name].append(time.process_time() - start)
        rate = {name: EPISODES * ROLLOUTS / float(np.median(spent)) for name, spent in seconds.items()}
        print(json.dumps({"turns": turns, **rate, "ratio": rate["ours"] / rate["stock"]}), flush=True)


if __name__ == "__main__":
    main()
