"""What a training run leaves behind: metrics as JSON lines, a plot of them, and checkpoints to resume from."""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from tqdm import tqdm

from .processes import is_first
from .sharding import laid_out_like, whole

# Settings that say how long a course is and how it is computed, not what it is.
LENGTHS = ("steps", "seconds", "checkpoint_every", "check_every", "check_problems", "at_once", "rows_at_once")


def checkpoint_fingerprint(origin: Path | None) -> str:
    """By content: the same checkpoint may lie elsewhere when a run goes on."""
    return hashlib.sha256(origin.read_bytes()).hexdigest()[:16] if origin else ""


class Journal:
    """One folder a run, written by the first process alone.

    After a kill, `resume` brings back the last checkpoint and forgets metrics after it.
    """

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.metrics = folder / f"{name}.jsonl"
        self._checkpoint = folder / f"{name}.pt"
        self._name = name

    def resume(self, model: nn.Module, optimizer: Optimizer) -> tuple[int, dict[str, Any]]:
        """The step to go on with, and what else was saved; (0, {}) for a fresh run."""
        if not self._checkpoint.exists():
            if is_first():
                self.metrics.unlink(missing_ok=True)
            return 0, {}
        saved = torch.load(self._checkpoint, map_location="cpu", weights_only=True)
        known = dict(model.named_parameters())
        model.load_state_dict(
            {name: laid_out_like(value, known[name]) for name, value in saved["model"].items()}, strict=False
        )
        learnt = [one for group in optimizer.param_groups for one in group["params"]]
        for number, state in saved["optimizer"]["state"].items():
            for name, value in state.items():
                state[name] = laid_out_like(value, learnt[number])
        optimizer.load_state_dict(saved["optimizer"])
        if is_first():
            kept = [line for line in self.read() if line["step"] < saved["step"]]
            self.metrics.write_text("".join(json.dumps(line) + "\n" for line in kept))
        return saved["step"], saved["more"]

    def same_course(self, settings: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
        """What to save beside a checkpoint, so that nobody goes on from it with other settings; more steps are none.

        @raises SystemExit where `more`, as `resume` gave it, was saved with others.
        """
        told = {name: value for name, value in settings.items() if name not in LENGTHS}
        saved = more.get("settings", told)
        other = [name for name, value in told.items() if saved.get(name, value) != value]
        if other:
            raise SystemExit(f"{self._checkpoint} was trained with another {', '.join(other)}: take another folder")
        return {"settings": told}

    def save(self, step: int, model: nn.Module, optimizer: Optimizer, more: dict[str, Any] | None = None) -> None:
        """`step` is the next one. Written beside and renamed, so that a kill leaves the old one whole."""
        # Frozen adapters too: what lies in the base file alone need not be kept.
        kept = {
            name: whole(value) for name, value in model.named_parameters() if value.requires_grad or "lora_" in name
        }
        moments = optimizer.state_dict()
        moments["state"] = {
            number: {name: whole(value) for name, value in state.items()} for number, state in moments["state"].items()
        }
        if not is_first():
            return
        state = {"step": step, "model": kept, "optimizer": moments, "more": more or {}}
        fresh = self._checkpoint.with_suffix(".part")
        torch.save(state, fresh)
        os.replace(fresh, self._checkpoint)

    def log(self, step: int, **figures: float) -> None:
        if not is_first():
            return
        with self.metrics.open("a") as lines:
            lines.write(json.dumps({"step": step, **figures}) + "\n")

    def read(self) -> list[dict[str, Any]]:
        if not self.metrics.exists():
            return []
        # A kill may have cut the last line.
        lines = self.metrics.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def steps(self, first: int, last: int) -> Iterator[int]:
        """Numbers of the steps to do, with a progress bar that shows the time left."""
        return iter(
            tqdm(range(first, last), initial=first, total=last, desc=self._name, mininterval=2, disable=not is_first())
        )

    def plot(self) -> Path:
        """Every figure over the steps, as PNG."""
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        lines = self.read()
        # A step need not have every figure: where nothing was asked there is nothing to tell.
        names = [name for name in dict.fromkeys(name for line in lines for name in line) if name != "step"]
        figure, axes = pyplot.subplots(
            max(1, len(names)), figsize=(7, 1.8 * max(1, len(names))), sharex=True, squeeze=False
        )
        for name, axis in zip(names, axes[:, 0], strict=False):
            told = [(line["step"], line[name]) for line in lines if name in line]
            axis.plot(*zip(*told, strict=True), linewidth=0.9)
            axis.set_ylabel(name, fontsize=7)
        path = self.metrics.with_suffix(".png")
        figure.tight_layout()
        figure.savefig(path, dpi=90)
        pyplot.close(figure)
        return path
