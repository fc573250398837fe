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
    reinforced: bool = True
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
    "SFT alone": Variant(reinforced=False),
    "no attempts": Variant(world="no-attempt"),
}
FIGURES = {"accuracy": 1, "cost share": -1, "utility": 1, "regret": -1}


def ablate(folder: Path, seeds: list[int], steps: int, names: list[str], episodes: int = 300) -> dict[str, Any]:
    """Writes `ablation.json` and `ablation.md` after every cell; returns the former.

    `steps` of SFT and as many of GRPO.
    """
    torch.set_num_threads(1)
    cells = [(seed, name) for seed in seeds for name in names]
    references = _references(episodes)
    dearest = references["always strongest"]["cost_usd"]
    found: list[dict[str, Any]] = []
    for seed, name in tqdm(cells, desc="ablate"):
        kept = folder / f"steps-{steps}" / f"{_slug(name)}-{seed}.json"
        if not kept.exists():
            figures = _cell(VARIANTS[name], seed, steps, episodes, kept.with_suffix(""))
            _keep(kept, _with_share(figures, dearest))
        found.append({"variant": name, "seed": seed, **json.loads(kept.read_text())})
        report = {"steps": steps, "episodes": episodes, "references": references, "rows": _rows(found), "cells": found}
        _write(folder, report)
    return json.loads((folder / "ablation.json").read_text())


def _keep(path: Path, figures: dict[str, float]) -> None:
    """Written beside and renamed, so that what is there is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".part")
    fresh.write_text(json.dumps(figures) + "\n")
    fresh.replace(path)


def _references(episodes: int) -> dict[str, dict[str, float]]:
    rules = load_contract("slots-2")
    choosers = {"always strongest": always_strongest, "best feasible": best_feasible(rules)}
    found = {name: examine(choose, rules, SHAPE, episodes) for name, choose in choosers.items()}
    dearest = found["always strongest"]["cost_usd"]
    return {name: _with_share(figures, dearest) for name, figures in found.items()}


def _with_share(figures: dict[str, float], dearest_usd: float) -> dict[str, float]:
    """Cost as a share of always-strongest's on the same episodes."""
    return {**figures, "cost share": round(figures["cost_usd"] / dearest_usd, 4)}


def _cell(variant: Variant, seed: int, steps: int, episodes: int, folder: Path) -> dict[str, float]:
    shape, rules_name = WORLDS[variant.world]
    rules, beliefs = load_contract(rules_name), load_contract("beliefs-1")
    source = tiny_model("llama", smoke_tokenizer(beliefs, seed), seed)
    policy = BeliefsPolicy(source.model, TextTokenizer(source.metadata), beliefs)
    if variant.warm:
        # Where it was trained for another cell, its last checkpoint is read.
        train_sft(policy, shape, rules, SftSettings(steps, seed=seed), folder.parent / f"sft-{variant.world}-{seed}")
    if variant.reinforced:
        train_grpo(policy, shape, rules, _grpo_settings(variant, seed, steps), folder)
    return examine(greedy(policy), rules, SHAPE, episodes)


def _grpo_settings(variant: Variant, seed: int, steps: int) -> GrpoSettings:
    return GrpoSettings(
        steps,
        learning_rate=1e-3,
        reward=variant.reward,
        filter=variant.filter,
        without=variant.without,
        seed=seed,
    )


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
