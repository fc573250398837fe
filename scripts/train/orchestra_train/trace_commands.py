"""The subcommand `from-traces`: learns from one's own traffic."""

import argparse
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .card_commands import open_reader
from .device import add_device_arguments
from .reading.outcomes import outcome_loss
from .reading.reader import Reader
from .reading.rosters import Reading
from .reading.train import CardSettings, train_cards
from .traces import TracedSource, count_skills, fitted_skills, read_traces, traced_readings


def add_trace_commands(commands: Any) -> None:
    learn = commands.add_parser("from-traces", help="skills and an adapter from judged runs of one's own gateway")
    learn.add_argument("--runs", type=Path, required=True, help="JSON lines of `orchestra runs export`")
    learn.add_argument("--out", type=Path, required=True, help="folder for skills.json, checkpoints and metrics")
    learn.add_argument("--base", type=Path, help="GGUF under the adapter; without it skills alone are counted")
    learn.add_argument(
        "--from",
        dest="origin",
        type=Path,
        help="to go on from: an adapter in GGUF, such as the bundled one, or a cards.pt",
    )
    learn.add_argument("--steps", type=int, default=100)
    learn.add_argument("--share", type=float, default=0.5, help="of examples that are judged answers")
    learn.add_argument("--held-out", type=float, default=0.2, help="share of judged answers that only tell how well")
    learn.add_argument("--learning-rate", type=float, default=1e-4)
    learn.add_argument("--rank", type=int, default=16)
    learn.add_argument("--seed", type=int, default=1)
    add_device_arguments(learn)
    learn.set_defaults(run=_learn, threads=1)


def _learn(arguments: argparse.Namespace) -> None:
    if not arguments.runs.is_file():
        raise SystemExit(f"--runs: there is no file {arguments.runs}; `orchestra runs export --out FILE` writes one")
    traces = read_traces(arguments.runs)
    if not traces.judged:
        raise SystemExit(
            f"--runs: {arguments.runs} holds no judged run ({traces.passed_over} lines passed over): give feedback, "
            "then export again"
        )
    counts = count_skills(traces.judged)
    arguments.out.mkdir(parents=True, exist_ok=True)
    skills = {"counts": counts, "skills": fitted_skills(counts)}
    (arguments.out / "skills.json").write_text(json.dumps(skills, indent=1) + "\n")
    readings = traced_readings(traces.judged)
    only_counted = Counter(one.only_counted for one in traces.judged if one.only_counted)
    figures: dict[str, Any] = {
        "judged": len(traces.judged),
        "passed_over": traces.passed_over,
        "with_text": len(readings),
        "only_counted": dict(only_counted),
    }
    if arguments.base:
        if not readings:
            reasons = ", ".join(f"{count} × {reason}" for reason, count in only_counted.items())
            raise SystemExit(
                f"--runs: {arguments.runs} has nothing to train on ({reasons}), so skills.json alone was written; "
                "texts are kept with `trace: { texts: on }` in orchestra.yaml, those of private runs never"
            )
        _same_course(arguments)
        figures |= _train(arguments, readings)
    print(json.dumps(figures, indent=1))


def _same_course(arguments: argparse.Namespace) -> None:
    """A killed run goes on; other answers, or another share held out, would be taken for learnt without being read.

    @raises SystemExit where the folder holds another training.
    """
    told = {name: getattr(arguments, name) for name in ("seed", "share", "held_out", "learning_rate", "rank")}
    told["runs"] = hashlib.sha256(arguments.runs.read_bytes()).hexdigest()
    kept = arguments.out / "course.json"
    known = json.loads(kept.read_text()) if kept.exists() else None
    if (arguments.out / "cards.pt").exists() and known != told:
        raise SystemExit(f"{arguments.out} holds another training: take another --out, and --from its cards.pt")
    kept.write_text(json.dumps(told) + "\n")


def _train(arguments: argparse.Namespace, readings: list[Reading]) -> dict[str, Any]:
    """Nats a judged answer before and after, on those that were held out."""
    # By question: what was asked twice is never learnt from and tested on.
    asked = sorted({one.problem for one in readings})
    count = min(max(1, round(arguments.held_out * len(asked))), len(asked) - 1)
    held = {asked[at] for at in np.random.default_rng(arguments.seed).permutation(len(asked))[:count]}
    tested = [one for one in readings if one.problem in held]
    learnt = [one for one in readings if one.problem not in held]
    _, reader = open_reader(arguments, arguments.origin)
    before = _nats(reader, tested)
    settings = CardSettings(
        arguments.steps,
        problems=4,
        learning_rate=arguments.learning_rate,
        seed=arguments.seed,
        # A kill costs minutes at most, where few steps are all there is.
        checkpoint_every=10,
        check_every=max(1, arguments.steps),
        start=1.0,
    )
    train_cards(reader, settings, arguments.out, TracedSource(learnt, arguments.share), arguments.origin)
    return {"held_out": len(tested), "nats_before": before, "nats_after": _nats(reader, tested)}


@torch.no_grad()
def _nats(reader: Reader, readings: list[Reading]) -> float | None:
    chances = torch.tensor(reader.contract["chances"])
    losses = [outcome_loss(reader.grades([reader.tree(one)])[0], chances, one).item() for one in readings]
    return round(float(np.mean(losses)), 4) if losses else None
