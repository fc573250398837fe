"""Where a model computes, and in which precision.

Loops need not know: `packing` sends tokens to the model's device, and only log-probabilities of the few open choices
come back, to the CPU.
"""

import argparse
import os
import sys

import torch

from .model import Decoder


def add_device_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: a GPU where one is")
    parser.add_argument(
        "--half",
        action=argparse.BooleanOptionalAction,
        help="bfloat16: the default on a GPU that has it; on a CPU that has it twice as fast, on others ignored",
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
    """What was asked for, but on a CPU that would have to emulate it: there a step takes many times as long."""
    if device.type == "cpu" and wanted and not _cpu_has_bfloat16():
        print("--half: this CPU has no bfloat16 (avx512_bf16, amx_bf16), so it computes in float32", file=sys.stderr)
        return False
    return wanted if wanted is not None else device.type == "cuda" and torch.cuda.is_bf16_supported()


def _cpu_has_bfloat16() -> bool:
    known = torch.cpu.get_capabilities()
    return any(known.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def place(model: Decoder, device: torch.device, half: bool = False) -> None:
    """Moves the model; its optimiser and checkpoints follow. Learnt weights stay in float32."""
    model.to(device)
    model.precision = torch.bfloat16 if half else torch.float32
