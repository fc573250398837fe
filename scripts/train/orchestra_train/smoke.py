"""The whole way with a tiny model: SFT, GRPO, export, and figures that say whether each step did its work."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .contract.load import Contract, load_contract
from .exam import always_strongest, best_feasible, examine, greedy
from .gguf_file import FORMATS, GgufModel, read_model, tiny_model, write_model
from .grpo import GrpoSettings, train_grpo
from .policy import BeliefsPolicy
from .sft import SftSettings, train_sft
from .tokenizer import TextTokenizer, tiny_tokenizer
from .world.episode import fresh_episode
from .world.roster import WorldShape

# One sentence a card, on the whole of a tool: what a tiny model can learn to read in two minutes.
SHAPE = WorldShape(
    slots=(3, 4), specialists=False, card_noise=0.2, named_domains=(0, 0), helpers=False, failures=0.0, limited=0.0
)


def smoke(
    folder: Path, seed: int = 1, sft_steps: int = 60, grpo_steps: int = 45, episodes: int = 300
) -> dict[str, Any]:
    """Writes `sft.jsonl`, `grpo.jsonl`, plots, `tiny.*.gguf` and `report.json` with gates; returns the report."""
    torch.set_num_threads(1)
    started = time.monotonic()
    rules = load_contract("slots-2")
    beliefs = load_contract("beliefs-1")
    source = tiny_model("llama", smoke_tokenizer(beliefs, seed), seed)
    policy = BeliefsPolicy(source.model, TextTokenizer(source.metadata), beliefs)

    table = {"start": examine(greedy(policy), rules, SHAPE, episodes)}
    train_sft(policy, SHAPE, rules, SftSettings(sft_steps, seed=seed), folder).plot()
    table["sft"] = examine(greedy(policy), rules, SHAPE, episodes)
    # The warm start is short on purpose: it leaves something that only runs can teach.
    settings = GrpoSettings(grpo_steps, 12, 32, learning_rate=1e-3, reward="utility", seed=seed)
    train_grpo(policy, SHAPE, rules, settings, folder).plot()
    table["grpo"] = examine(greedy(policy), rules, SHAPE, episodes)
    table["best feasible"] = examine(best_feasible(rules), rules, SHAPE, episodes)
    table["always strongest"] = examine(always_strongest, rules, SHAPE, episodes)

    for file_format in FORMATS:
        write_model(source, folder / f"tiny.{file_format}.gguf", file_format)
    report = {"gates": _gates(table, source, folder), "table": table, "seconds": round(time.monotonic() - started, 1)}
    (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    return report


def smoke_tokenizer(beliefs: Contract, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    texts = [slot.quality for _ in range(200) for slot in fresh_episode(rng, SHAPE).slots]
    texts += [fresh_episode(rng, SHAPE).problem for _ in range(100)]
    # Each grade must become one token.
    return tiny_tokenizer([*texts, *beliefs["grades"] * 200, *beliefs["questions"].values()], 600)


def _gates(table: dict[str, dict[str, float]], source: GgufModel, folder: Path) -> list[dict[str, Any]]:
    start, sft, grpo, strongest = (table[row] for row in ("start", "sft", "grpo", "always strongest"))
    back = read_model(folder / "tiny.F32.gguf").model
    ids = torch.arange(40)[None]
    with torch.no_grad():
        apart = (back.logits(back(ids)) - source.model.logits(source.model(ids))).abs().max().item()
    gates = [
        ("regret after SFT to the start's", sft["regret"] / start["regret"], 1.0, -1),
        ("regret after GRPO to SFT's", grpo["regret"] / sft["regret"], 1.0, -1),
        ("utility after GRPO over the start", grpo["utility"] - start["utility"], 0.0, 1),
        ("accuracy after GRPO over SFT", grpo["accuracy"] - sft["accuracy"], -0.005, 1),
        ("cost after GRPO to always-strongest's", grpo["cost_usd"] / strongest["cost_usd"], 0.6, -1),
        ("greatest difference of the exported F32", apart, 1e-4, -1),
    ]
    return [
        {"name": name, "value": round(value, 6), "bar": bar, "ok": (value - bar) * sign > 0}
        for name, value, bar, sign in gates
    ]
