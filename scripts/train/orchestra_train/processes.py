"""Several processes that train as one: each computes its part, all hold the same weights and draw the same episodes.

Started by `torchrun`; a process alone is a group of one, for which everything here does nothing. Gradients are summed,
not averaged: each process weighs its part by the size of the whole batch. Rollouts are shared as well: every process
computes the log-probabilities of its part of the turns, and all sample from all of them with one random stream.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

Item = TypeVar("Item")


def join_processes() -> None:
    """Joins the group that `torchrun` tells of; gloo on CPUs, NCCL where each process has a GPU."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")


def leave_processes() -> None:
    """All wait for the last: who ends while another still talks to it may take that one down."""
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def wait_for_all() -> None:
    if dist.is_initialized():
        dist.barrier()


def count() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def is_first() -> bool:
    """Whether this process writes files and shows progress."""
    return not dist.is_initialized() or dist.get_rank() == 0


def own_part(items: Sequence[Item]) -> Sequence[Item]:
    """Every n-th; the parts of all processes are the whole."""
    return items[dist.get_rank() :: count()] if dist.is_initialized() else items


def gather_parts(part: Sequence[Any], total: int) -> list[Any]:
    """What `own_part` took apart, together again in its order, on every process."""
    if count() == 1:
        return list(part)
    parts: list[Any] = [None] * count()
    dist.all_gather_object(parts, list(part))
    return [parts[at % count()][at // count()] for at in range(total)]


def sum_gradients(parameters: Iterable[Tensor]) -> None:
    """A parameter that no turn of this process touched has no gradient here, but may have one elsewhere."""
    if count() == 1:
        return
    learnt = list(parameters)
    flat = torch.cat([(torch.zeros_like(one) if one.grad is None else one.grad).flatten() for one in learnt])
    dist.all_reduce(flat)
    for one, piece in zip(learnt, flat.split([one.numel() for one in learnt]), strict=True):
        one.grad = piece.view_as(one)


def sum_values(*values: float) -> list[float]:
    if count() == 1:
        return list(values)
    total = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(total)
    return total.tolist()
