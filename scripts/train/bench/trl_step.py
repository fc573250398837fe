"""One optimizer step of GRPO, beside TRL's: the same weights, prompts, calls and advantages, in CPU seconds.

    pip install -e '.[bench]' && python bench/trl_step.py

32 first turns of `slots-2` (four episodes, eight rollouts of each) with calls picked at random. TRL is its own
`GRPOTrainer`: `rollout_func` hands it the prompts and calls as token ids, a reward function their advantages (of mean
zero in a group, since it takes the mean off again), `beta` 0, one iteration, `dr_grpo`, float32, no gradient
checkpointing; the step is what lies between its callbacks `on_step_begin` and `on_step_end`. Steps take turns.

- `written` is TRL's loss: log-probabilities of the whole call over the whole vocabulary. `gradients` is the cosine
  between both first gradients, where the weights are still equal.
- `served` is what is trained here: the masked product over the open choices.

What differs: TRL takes ready token ids, ours renders and tokenises its prompts within the time; TRL also computes the
entropy of each token and keeps its logs. Each side has its own copy of the weights, which part slowly.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from setting import EPISODES, ROLLOUTS, bench_model, fresh_groups, stock_model, stock_name, unpaired
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from orchestra_train.contract.load import load_contract
from orchestra_train.gguf_file import GgufModel
from orchestra_train.grpo import _backward
from orchestra_train.policy import SlotsPolicy
from orchestra_train.rollout import Written
from orchestra_train.tokenizer import TextTokenizer
from orchestra_train.written import WritingPolicy

LEARNING_RATE = 3e-4


@dataclass(frozen=True)
class Sample:
    prompt: list[int]
    call: list[int]
    advantage: float


def our_step(policy: SlotsPolicy, calls: list[list[int]], weights: list[np.ndarray]) -> Callable[[], None]:
    """`calls` are numbers of choices, a list a group."""
    groups = fresh_groups(load_contract("slots-2"), np.random.default_rng(0))
    for group, numbers in zip(groups, calls, strict=True):
        for rollout, number in zip(group, numbers, strict=True):
            turn = rollout.turn()
            decision: int | Written = number
            if isinstance(policy, WritingPolicy):
                decision = Written(tuple(policy.tree(turn).branches[number]), turn.choices[number])
            rollout.decisions.append((turn, decision))
    learnt = list(policy.model.parameters())
    optimizer = torch.optim.AdamW(learnt, lr=LEARNING_RATE, weight_decay=0.0)

    def step() -> None:
        optimizer.zero_grad()
        _backward(policy, groups, weights, 0.0)
        torch.nn.utils.clip_grad_norm_(learnt, 1.0)
        optimizer.step()

    return step


class TakeTurns(TrainerCallback):
    """CPU seconds of each step of TRL's, and of ours, which follow it; and how alike the first gradients are."""

    def __init__(self, others: dict[str, Callable[[], None]], writing: GgufModel) -> None:
        self.seconds: dict[str, list[float]] = {"trl": [], **{name: [] for name in others}}
        self.alike: float | None = None
        self._gradient: dict[str, torch.Tensor] = {}
        self._others = others
        self._writing = writing
        self._start = 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._start = time.process_time()

    def on_pre_optimizer_step(self, *_: Any, model: LlamaForCausalLM, **__: Any) -> None:
        if self.alike is None:
            parts = model.named_parameters()
            self._gradient = {name: part.grad.clone() for name, part in parts if part.grad is not None}

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.seconds["trl"].append(time.process_time() - self._start)
        for name, step in self._others.items():
            self._start = time.process_time()
            step()
            self.seconds[name].append(time.process_time() - self._start)
        if self.alike is None:
            self.alike = cosine(self._writing, self._gradient)


def trl_trainer(
    model: LlamaForCausalLM, source: GgufModel, groups: list[list[Sample]], steps: int, turns: TakeTurns, out: Path
) -> GRPOTrainer:
    def rollouts(prompts: list[str], _: GRPOTrainer) -> dict[str, list[Any]]:
        waiting = [iter(group) for group in groups]
        chosen = [next(waiting[int(prompt)]) for prompt in prompts]
        return {
            "prompt_ids": [one.prompt for one in chosen],
            "completion_ids": [one.call for one in chosen],
            "logprobs": [[0.0] * len(one.call) for one in chosen],
            "advantage": [one.advantage for one in chosen],
        }

    def reward(advantage: list[float], **_: Any) -> list[float]:
        return advantage

    settings = GRPOConfig(
        output_dir=str(out),
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        max_steps=steps,
        per_device_train_batch_size=ROLLOUTS,
        gradient_accumulation_steps=EPISODES,
        num_generations=ROLLOUTS,
        max_completion_length=128,
        loss_type="dr_grpo",
        scale_rewards="none",
        beta=0.0,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )
    return GRPOTrainer(
        model=model,
        reward_funcs=reward,
        args=settings,
        train_dataset=Dataset.from_dict({"prompt": [str(number) for number in range(len(groups))]}),
        processing_class=PreTrainedTokenizerFast(
            tokenizer_object=TextTokenizer(source.metadata)._bpe, pad_token="<|endoftext|>", eos_token="<|im_end|>"
        ),
        rollout_func=rollouts,
        callbacks=[turns],
    )


def cosine(source: GgufModel, theirs: dict[str, torch.Tensor]) -> float:
    """Between the gradient that our model holds and TRL's."""
    pairs = [
        (unpaired(name, part.grad, source.model.config.head_width).flatten(), theirs[stock_name(name)].flatten())
        for name, part in source.model.named_parameters()
        if part.grad is not None
    ]
    ours, other = (torch.cat(side).double() for side in zip(*pairs, strict=True))
    return torch.nn.functional.cosine_similarity(ours, other, dim=0).item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--steps", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rules, rng = load_contract("slots-2"), np.random.default_rng(1)
    copies = [bench_model(arguments.layers, arguments.width) for _ in range(3)]
    served, writing, peer = copies
    words = TextTokenizer(served.metadata)
    policies = {
        "served": SlotsPolicy(served.model, words, rules),
        "written": WritingPolicy(writing.model, words, rules),
    }

    groups = fresh_groups(rules, np.random.default_rng(0))
    trees = [[policies["served"].tree(rollout.turn()) for rollout in group] for group in groups]
    calls = [[int(rng.integers(len(tree.branches))) for tree in group] for group in trees]
    weights = [scores - scores.mean() for scores in rng.normal(size=(EPISODES, ROLLOUTS))]
    samples = [
        [Sample(tree.prefix, tree.branches[number], float(weight)) for tree, number, weight in zip(*each, strict=True)]
        for each in zip(trees, calls, weights, strict=True)
    ]
    turns = TakeTurns({name: our_step(policy, calls, weights) for name, policy in policies.items()}, writing)
    with TemporaryDirectory() as out:
        trl_trainer(stock_model(peer.model), peer, samples, arguments.steps, turns, Path(out)).train()
    medians = {name: float(np.median(spent)) for name, spent in turns.seconds.items()}
    ratios = {name: medians["trl"] / medians[name] for name in policies}
    print(json.dumps({"gradients": turns.alike, "seconds": medians, "ratios": ratios, "steps": arguments.steps}))


if __name__ == "__main__":
    main()
