"""Where a model computes, and in which precision.

Loops need not know: `packing` sends tokens to the model's device, and only log-probabilities of the few open choices
come back, to the CPU.
"""

import argparse
import os

import torch

from .model import Decoder


def add_device_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: a GPU where one is")
    parser.add_argument(
        "--half",
        action=argparse.BooleanOptionalAction,
        help="bfloat16: the default on a GPU that has it; on a CPU that has it twice as fast",
    )


def pick_device(name: str) -> torch.device:
    """Of several processes on a machine each has a GPU of its own."""
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise SystemExit("--device cuda: torch finds no GPU here")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def computes_in_half(device: torch.device, wanted: bool | None) -> bool:
    return wanted if wanted is not None else device.type == "cuda" and torch.cuda.is_bf16_supported()


def place(model: Decoder, device: torch.device, half: bool | None = None) -> None:
    """Moves the model; its optimiser and checkpoints follow. Learnt weights stay in float32."""
    model.to(device)
    model.precision = torch.bfloat16 if computes_in_half(device, half) else torch.float32
