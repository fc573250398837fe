"""What a training goes on from: the checkpoint of an earlier one, or an adapter in GGUF, such as the bundled one.

A checkpoint brings the probes of its hints along; an adapter, which was written to be served, does not.
"""

import pickle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .gguf_file import read_adapter
from .model import Decoder


def load_learnt(model: Decoder, origin: Path) -> None:
    """@raises SystemExit where the file holds anything but what would learn here."""
    learnt = _weights_of_adapter(model, origin) if _is_gguf(origin) else _checkpoint(origin)["model"]
    shapes = {name: one.shape for name, one in model.named_parameters() if one.requires_grad}
    if {name: one.shape for name, one in learnt.items()} != shapes:
        raise SystemExit(f"{origin} was trained with another --rank or --base")
    model.load_state_dict(learnt, strict=False)


def probes_of(origin: Path) -> dict[str, Tensor] | None:
    """Those of the hints that were asked in its training, where the file keeps them."""
    return None if _is_gguf(origin) else _checkpoint(origin)["more"].get("probes")


def refuse_other_contract(checkpoint: Path, contract: str) -> None:
    """@raises SystemExit where the checkpoint was trained on the prompts of another one."""
    known = _checkpoint(checkpoint)["more"].get("settings", {}).get("contract")
    if known and known != contract:
        raise SystemExit(f"--contract {contract}: {checkpoint} was trained with {known}")


def _weights_of_adapter(model: Decoder, file: Path) -> dict[str, Tensor]:
    try:
        weights, alpha = read_adapter(_existing(file))
    except (ValueError, KeyError):
        raise SystemExit(f"{file} is no adapter in GGUF") from None
    scales = {name: part.scale for name, part in model.projections().items()}
    for name, value in weights.items():
        projection, side = name.rsplit(".", 1)
        if side == "lora_b" and projection in scales:
            # What is served is alpha / rank times the product; here the model says by what it multiplies.
            weights[name] = value * (alpha / value.shape[1] / scales[projection])
    return weights


def _checkpoint(file: Path) -> dict[str, Any]:
    try:
        saved = torch.load(_existing(file), map_location="cpu", weights_only=True)
        return {"model": saved["model"], "more": saved["more"]}
    except (pickle.UnpicklingError, KeyError, TypeError, EOFError, RuntimeError):
        raise SystemExit(f"{file} is neither a checkpoint nor an adapter in GGUF (.gguf)") from None


def _existing(file: Path) -> Path:
    if not file.exists():
        raise SystemExit(f"there is no checkpoint {file}")
    return file


def _is_gguf(file: Path) -> bool:
    return file.suffix == ".gguf"
