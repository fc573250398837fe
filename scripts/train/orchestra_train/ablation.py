"""What each part of the recipe is worth with the tiny model of the smoke run: one thing changed at a time.

A cell is a variant under a seed: warm start, GRPO, and an exam on episodes that training never draws, the same for all.
Finished cells are kept, and a killed one goes on where its checkpoint stands. Cells that differ only in GRPO begin at
the same warm start, which is trained once.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from .contract.load import load_contract
from .exam import always_strongest, best_feasible, examine, greedy
from .gguf_file import tiny_model
from .grpo import GrpoSettings, train_grpo
from .policy import BeliefsPolicy
from .sft import SftSettings, train_sft
from .smoke import SHAPE, smoke_tokenizer
from .tokenizer import TextTokenizer
from .world.roster import WorldShape

# How the training episodes differ; the rules without attempts are those of `slots-1`.
WORLDS: dict[str, tuple[WorldShape, str]] = {
    "varied": (SHAPE, "slots-2"),
    "fixed-tools": (replace(SHAPE, same_tools=1), "slots-2"),
    "fixed-prices": (replace(SHAPE, listed_prices=True), "slots-2"),
    "no-attempt": (SHAPE, "slots-1"),
}


@dataclass(frozen=True)
class Variant:
    """`without` names components that the reward leaves out; the user's weights stay in the search."""

    world: str = "varied"
    warm: bool = True
    reward: str = "gated_gdpo"
    filter: str = "component"
    without: tuple[str, ...] = ()


VARIANTS = {
    "ours (gated_gdpo, component filter)": Variant(),
    "reward: paper": Variant(reward="paper"),
    "reward: gdpo": Variant(reward="gdpo"),
    "reward: sum": Variant(reward="sum"),
    "reward: utility": Variant(reward="utility"),
    "reward without cost": Variant(without=("cost",)),
    "reward without latency": Variant(without=("latency",)),
    "reward without preference": Variant(without=("liking",)),
    "the paper's filters": Variant(filter="paper"),
    "no filters": Variant(filter="none"),
    "the same tools always": Variant(world="fixed-tools"),
    "prices by rank": Variant(world="fixed-prices"),
    "no SFT": Variant(warm=False),
    "no attempts": Variant(world="no-attempt"),
}
FIGURES = {"accuracy": 1, "cost share": -1, "utility": 1, "regret": -1}


def ablate(folder: Path, seeds: list[int], steps: int, names: list[str], episodes: int = 300) -> dict[str, Any]:
    """Writes `ablation.json` and `ablation.md` after every cell; returns the former.

    `steps` of SFT and as many of GRPO.
    """
    torch.set_num_threads(1)
    cells = [(seed, name) for seed in seeds for name in names]
    report = _references(episodes)
    for seed, name in tqdm(cells, desc="ablate"):
        kept = folder / f"steps-{steps}" / f"{_slug(name)}-{seed}.json"
        if not kept.exists():
            figures = _cell(VARIANTS[name], seed, steps, episodes, kept.with_suffix(""))
            kept.write_text(json.dumps(_shared(figures, report)) + "\n")
        report["cells"].append({"variant": name, "seed": seed, **json.loads(kept.read_text())})
        _write(folder, {**report, "steps": steps, "episodes": episodes, "rows": _rows(report["cells"])})
    return json.loads((folder / "ablation.json").read_text())


def _references(episodes: int) -> dict[str, Any]:
    rules = load_contract("slots-2")
    strongest = examine(always_strongest, rules, SHAPE, episodes)
    found = {"always strongest": strongest, "best feasible": examine(best_feasible(rules), rules, SHAPE, episodes)}
    report: dict[str, Any] = {"references": found, "cells": []}
    return {**report, "references": {name: _shared(figures, report) for name, figures in found.items()}}


def _shared(figures: dict[str, float], report: dict[str, Any]) -> dict[str, float]:
    """Cost as a share of always-strongest's on the same episodes."""
    share = figures["cost_usd"] / report["references"]["always strongest"]["cost_usd"]
    return {**figures, "cost share": round(share, 4)}


def _cell(variant: Variant, seed: int, steps: int, episodes: int, folder: Path) -> dict[str, float]:
    shape, rules_name = WORLDS[variant.world]
    rules, beliefs = load_contract(rules_name), load_contract("beliefs-1")
    source = tiny_model("llama", smoke_tokenizer(beliefs, seed), seed)
    policy = BeliefsPolicy(source.model, TextTokenizer(source.metadata), beliefs)
    if variant.warm:
        # Where it was trained for another cell, its last checkpoint is read.
        train_sft(policy, shape, rules, SftSettings(steps, seed=seed), folder.parent / f"sft-{variant.world}-{seed}")
    settings = GrpoSettings(
        steps,
        learning_rate=1e-3,
        reward=variant.reward,
        filter=variant.filter,
        without=variant.without,
        seed=seed,
    )
    train_grpo(policy, shape, rules, settings, folder)
    return examine(greedy(policy), rules, SHAPE, episodes)


def _rows(cells: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Of each variant and figure the median and the worst of the seeds."""
    rows = {}
    for name in dict.fromkeys(cell["variant"] for cell in cells):
        own = [cell for cell in cells if cell["variant"] == name]
        rows[name] = {
            figure: {
                "median": round(float(np.median([cell[figure] for cell in own])), 4),
                "worst": min((cell[figure] for cell in own), key=lambda value, sign=sign: sign * value),
            }
            for figure, sign in FIGURES.items()
        }
    return rows


def _write(folder: Path, report: dict[str, Any]) -> None:
    seeds = sorted({cell["seed"] for cell in report["cells"]})
    lines = [
        f"Seeds {seeds}, {report['steps']} steps of SFT and of GRPO, {report['episodes']} episodes; median (worst).",
        "",
        "| | " + " | ".join(FIGURES) + " |",
        "|---" * (len(FIGURES) + 1) + "|",
    ]
    for name, row in report["rows"].items():
        shown = [f"{row[figure]['median']:.3f} ({row[figure]['worst']:.3f})" for figure in FIGURES]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    for name, row in report["references"].items():
        lines.append(f"| {name} | {' | '.join(f'{row[figure]:.3f}' for figure in FIGURES)} |")
    (folder / "ablation.md").write_text("\n".join(lines) + "\n")
    (folder / "ablation.json").write_text(json.dumps(report, indent=1) + "\n")


def _slug(name: str) -> str:
    return "-".join("".join(mark if mark.isalnum() else " " for mark in name).split())
