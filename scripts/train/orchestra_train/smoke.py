"""The whole way with a tiny model: SFT, GRPO, export, and figures that say whether each step did its work."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .contract.load import Contract, load_contract
from .gguf_file import FORMATS, GgufModel, read_model, tiny_model, write_model
from .grpo import GrpoSettings, train_grpo
from .policy import BeliefsPolicy, Policy, Turn
from .sft import SftSettings, train_sft
from .tokenizer import TextTokenizer, tiny_tokenizer
from .world.decide import best_run, realised_utility
from .world.episode import Run, fresh_episode
from .world.roster import WorldShape

# One sentence a card, on the whole of a tool: what a tiny model can learn to read in two minutes.
SHAPE = WorldShape(
    slots=(3, 4), specialists=False, card_noise=0.2, named_domains=(0, 0), helpers=False, failures=0.0, limited=0.0
)
EVALUATION_SEED = 10_000


def smoke(
    folder: Path, seed: int = 1, sft_steps: int = 150, grpo_steps: int = 40, episodes: int = 300
) -> dict[str, Any]:
    """Writes `sft.jsonl`, `grpo.jsonl`, plots, `tiny.*.gguf` and `report.json` with gates; returns the report."""
    torch.set_num_threads(1)
    started = time.monotonic()
    rules = load_contract("slots-2")
    beliefs = load_contract("beliefs-1")
    source = tiny_model("llama", _tokenizer(beliefs, seed), seed)
    policy = BeliefsPolicy(source.model, TextTokenizer(source.metadata), beliefs)

    table = {"start": evaluate(policy, rules, episodes)}
    train_sft(policy, SHAPE, rules, SftSettings(sft_steps, seed=seed), folder).plot()
    table["sft"] = evaluate(policy, rules, episodes)
    train_grpo(policy, SHAPE, rules, GrpoSettings(grpo_steps, seed=seed), folder).plot()
    table["grpo"] = evaluate(policy, rules, episodes)
    table["best feasible"] = _measure(rules, episodes, lambda episode, rng: best_run(episode, rules, rng))

    for file_format in FORMATS:
        write_model(source, folder / f"tiny.{file_format}.gguf", file_format)
    report = {"gates": _gates(table, source, folder), "table": table, "seconds": round(time.monotonic() - started, 1)}
    (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    return report


def _tokenizer(beliefs: Contract, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    texts = [slot.quality for _ in range(200) for slot in fresh_episode(rng, SHAPE).slots]
    texts += [fresh_episode(rng, SHAPE).problem for _ in range(100)]
    # Each grade must become one token.
    return tiny_tokenizer([*texts, *beliefs["grades"] * 200, *beliefs["questions"].values()], 600)


@torch.no_grad()
def evaluate(policy: Policy, rules: Contract, episodes: int) -> dict[str, float]:
    """Greedy decisions on episodes that training never draws."""

    def walk(episode: Any, rng: np.random.Generator) -> Run:
        run = Run(episode, rules, rng)
        while not run.done:
            choices = run.choices()
            [scores] = policy.log_probabilities([Turn(run, choices)])
            run.step(choices[int(scores.argmax())])
        return run

    return _measure(rules, episodes, walk)


def _measure(rules: Contract, episodes: int, walk: Callable[[Any, np.random.Generator], Run]) -> dict[str, float]:
    runs = []
    for number in range(episodes):
        rng = np.random.default_rng([EVALUATION_SEED, number])
        runs.append(walk(fresh_episode(rng, SHAPE), rng))
    return {
        "accuracy": round(float(np.mean([run.correct for run in runs])), 4),
        "cost_usd": round(float(np.mean([run.cost_usd for run in runs])), 6),
        "utility": round(float(np.mean([realised_utility(run, rules) for run in runs])), 4),
    }


def _gates(table: dict[str, dict[str, float]], source: GgufModel, folder: Path) -> list[dict[str, Any]]:
    sft, grpo = table["sft"], table["grpo"]
    back = read_model(folder / "tiny.F32.gguf").model
    ids = torch.arange(40)[None]
    with torch.no_grad():
        apart = (back.logits(back(ids)) - source.model.logits(source.model(ids))).abs().max().item()
    gates = [
        ("utility after SFT over the start", sft["utility"] - table["start"]["utility"], 0.0, 1),
        ("utility after GRPO over SFT", grpo["utility"] - sft["utility"], 0.0, 1),
        ("cost after GRPO to SFT", grpo["cost_usd"] / sft["cost_usd"], 1.0, -1),
        ("accuracy after GRPO over SFT", grpo["accuracy"] - sft["accuracy"], -0.005, 1),
        ("greatest difference of the exported F32", apart, 1e-4, -1),
    ]
    return [
        {"name": name, "value": round(value, 6), "bar": bar, "ok": (value - bar) * sign > 0}
        for name, value, bar, sign in gates
    ]
