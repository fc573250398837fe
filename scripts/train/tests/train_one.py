"""One process of several: trains a tiny policy as `test_processes.py` asks, in its own folder."""

import sys
from pathlib import Path

import torch
from test_training import SHAPE, SLOTS, fresh_policy

from orchestra_train.device import place
from orchestra_train.grpo import GrpoSettings, train_grpo
from orchestra_train.journal import Journal
from orchestra_train.processes import join_processes, leave_processes
from orchestra_train.sft import SftSettings, train_sft
from orchestra_train.sharding import shard

KILLED = 9


def main() -> None:
    torch.set_num_threads(1)
    join_processes()
    kind, folder = sys.argv[1], Path(sys.argv[2])
    how = sys.argv[3]
    policy = fresh_policy(adapter="adapter" in how)
    if "half" in how:
        place(policy.model, torch.device("cpu"), half=True)
    if "sharded" in how:
        shard(policy.model)
    if "killed" in how:
        Journal.log = die_at_four
    if kind == "sft":
        train_sft(policy, SHAPE, SLOTS, SftSettings(6, episodes=5, at_once=2, checkpoint_every=3), folder)
    else:
        train_grpo(policy, SHAPE, SLOTS, GrpoSettings(4, episodes=3, rollouts=4, filter="none", entropy=0.01), folder)
    leave_processes()


def die_at_four(journal: Journal, step: int, **figures: float) -> None:
    """As a kill behind the checkpoint of step three."""
    if step == 4:
        sys.exit(KILLED)


if __name__ == "__main__":
    main()
