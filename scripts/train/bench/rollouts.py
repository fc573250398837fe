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
from setting import EPISODES, ROLLOUTS, bench_model, fresh_groups, stock_model
from transformers import LlamaForCausalLM

from orchestra_train.contract.load import load_contract
from orchestra_train.policy import SlotsPolicy
from orchestra_train.rollout import Rollout
from orchestra_train.tokenizer import TextTokenizer


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
    source = bench_model(arguments.layers, arguments.width)
    policy = SlotsPolicy(source.model, TextTokenizer(source.metadata), rules)
    peer = stock_model(source.model)
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
