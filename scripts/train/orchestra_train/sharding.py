"""FSDP2: weights, gradients and optimiser states of a large model, shared out over the processes.

Between steps each process holds its part of everything. For the length of a step all weights are gathered, so that
processes may have different numbers of rows to compute, in rollouts as well; gradients wait until the step is closed.
An 8B in bfloat16 takes 16 GB of each GPU for that, besides its part. Without sharding everything here does what it does
for whole models.
"""

import os

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from . import processes
from .model import Decoder


def wants_sharding() -> bool:
    """What `accelerate launch` says with a configuration for FSDP."""
    return os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true"


def wants_recomputing() -> bool:
    return wants_sharding() and os.environ.get("FSDP_ACTIVATION_CHECKPOINTING", "").lower() == "true"


def shard(model: Decoder) -> None:
    """Of a model that every process holds alike, each keeps its part; learnt weights stay in float32."""
    mesh = init_device_mesh(model.device.type, (processes.count(),))
    half = model.precision == torch.bfloat16
    # Rotations and masks are made for the model's own precision: nothing handed to a block is cast.
    policy = MixedPrecisionPolicy(
        torch.bfloat16 if half else None, reduce_dtype=torch.float32, cast_forward_inputs=False
    )
    model.precision = torch.float32
    for part in (*model.blk, model):
        sharded = fully_shard(part, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
        # Each process weighs its part by the size of the whole batch: gradients are summed, not averaged.
        sharded.set_force_sum_reduction_for_comms(True)
        sharded.set_gradient_divide_factor(1.0)


def begin_step(model: nn.Module) -> None:
    """Gathers the weights; every process calls it at the same time."""
    if not isinstance(model, FSDPModule):
        return
    model.set_requires_gradient_sync(False)
    model.set_reshard_after_backward(False)
    for part in model.modules():
        if isinstance(part, FSDPModule):
            part.unshard()


def sum_gradients(model: nn.Module) -> None:
    """Closes a step: the learnt weights get the sum of all processes' gradients."""
    if not isinstance(model, FSDPModule):
        processes.sum_gradients([one for one in model.parameters() if one.requires_grad])
        return
    model.set_requires_gradient_sync(True)
    model.set_reshard_after_backward(True)
    # Gradients travel during a backward pass: one that adds nothing, and that every process has.
    (model.logits(model(torch.zeros(1, 1, dtype=torch.long, device=model.device))).sum() * 0).backward()


def clip_gradients(learnt: list[Tensor], most: float) -> float:
    """Their norm over all processes, before it is cut to `most`."""
    norm = torch.nn.utils.clip_grad_norm_(learnt, most)
    return (norm.full_tensor() if isinstance(norm, DTensor) else norm).item()


def whole(value: Tensor) -> Tensor:
    """Of a tensor of which each process holds a part, all of it."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def laid_out_like(value: Tensor, model_tensor: Tensor) -> Tensor:
    """What `whole` gave, in the parts of a learnt tensor; counters stay as they are."""
    if isinstance(model_tensor, DTensor) and value.shape == model_tensor.shape:
        return distribute_tensor(value.to(model_tensor.device), model_tensor.device_mesh, model_tensor.placements)
    return value
