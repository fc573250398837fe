"""The subcommands of card reading: `cards` trains an adapter, `cards-report` says how well it reads."""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .contract.load import load_contract
from .device import add_device_arguments, computes_in_half, pick_device, place
from .gguf_file import GgufModel, write_adapter
from .hf_file import open_base
from .model import add_adapter, compile_blocks, freeze_adapters
from .origin import load_learnt
from .reading.evaluate import evaluate_choices
from .reading.outcomes import PACKS, fit_chances, read_outcomes, unlikelihood
from .reading.reader import Reader, halve_frozen
from .reading.subjects import HIDDEN, SUBJECTS
from .reading.train import CardSettings, train_cards
from .tokenizer import TextTokenizer


def add_card_commands(commands: Any) -> None:
    train = commands.add_parser("cards", help="teach a base model to read cards (beliefs-1), as an adapter")
    add_card_arguments(train)
    train.add_argument("--steps", type=int, required=True)
    train.add_argument("--lists-first", type=int, default=350, help="steps of lists alone, before those of cards")
    train.add_argument("--problems", type=int, default=1, help="a step")
    train.add_argument("--cards", type=int, default=5, help="a problem")
    train.add_argument("--learning-rate", type=float, default=5e-4)
    train.add_argument("--outcomes", type=float, default=0.0, help="share of problems with recorded outcomes")
    train.add_argument("--wishes", type=int, default=3, help="a step, beside the problems")
    train.add_argument("--lists", type=int, default=1, help="a step, beside the problems")
    train.add_argument("--start", type=float, default=0.0, help="where the curriculum begins, up to 1")
    train.add_argument("--frozen-layers", type=int, default=0, help="first layers whose adapters do not learn")
    train.add_argument("--compile", action="store_true", help="a sixth faster; needs a C++ compiler")
    train.add_argument("--seed", type=int, default=1)
    train.set_defaults(run=_train)

    report = commands.add_parser("cards-report", help="agreement with a perfect reader; recorded outcomes; export")
    add_card_arguments(report)
    report.add_argument("--episodes", type=int, default=150)
    report.add_argument("--items", type=int, default=150, help="of each pack's validation split")
    report.add_argument("--adapter", type=Path, help="where to write the adapter as GGUF")
    report.set_defaults(run=_report)


def add_card_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--base", type=Path, required=True, help="GGUF to start from")
    parser.add_argument("--out", type=Path, required=True, help="folder of checkpoints, metrics and plots")
    parser.add_argument(
        "--from", dest="origin", type=Path, help="to go on from: a checkpoint of another folder, or an adapter in GGUF"
    )
    parser.add_argument("--rank", type=int, default=16)
    add_device_arguments(parser)
    parser.add_argument("--threads", type=int, default=1)


def open_reader(arguments: argparse.Namespace, checkpoint: Path | None) -> tuple[GgufModel, Reader]:
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    source = open_base(arguments.base)
    add_adapter(source.model, arguments.rank, alpha=2 * arguments.rank)
    device = pick_device(arguments.device)
    place(source.model, device, computes_in_half(device, arguments.half))
    if source.model.precision == torch.bfloat16:
        halve_frozen(source.model)
    if checkpoint:
        load_learnt(source.model, checkpoint)
    return source, Reader(source.model, TextTokenizer(source.metadata), load_contract("beliefs-1"))


def _train(arguments: argparse.Namespace) -> None:
    source, reader = open_reader(arguments, arguments.origin)
    freeze_adapters(source.model, arguments.frozen_layers)
    if arguments.compile:
        compile_blocks(source.model)
    settings = CardSettings(
        arguments.steps,
        arguments.problems,
        arguments.cards,
        arguments.learning_rate,
        arguments.seed,
        start=arguments.start,
        outcomes=arguments.outcomes,
        wishes=arguments.wishes,
        lists=arguments.lists,
        lists_first=0 if arguments.origin else arguments.lists_first,
    )
    print(train_cards(reader, settings, arguments.out, origin=arguments.origin).plot())


def _report(arguments: argparse.Namespace) -> None:
    source, reader = open_reader(arguments, arguments.origin or arguments.out / "cards.pt")
    # First: the report takes minutes, and may be cut short.
    if arguments.adapter:
        write_adapter(source, arguments.adapter, reader.contract)
    rules = load_contract("slots-2")
    seen = [name for name in SUBJECTS if name not in HIDDEN]
    figures: dict[str, Any] = {
        "unseen_wordings": evaluate_choices(reader, rules, arguments.episodes, seen),
        "unseen_subjects": evaluate_choices(reader, rules, arguments.episodes, list(HIDDEN)),
    }
    for pack in PACKS if arguments.items else ():
        figures[pack] = outcome_figures(reader, pack, arguments.items)
    print(json.dumps(figures, indent=1))


def outcome_figures(reader: Reader, pack: str, items: int) -> dict[str, Any]:
    """Nats a call on the validation split: the table of known domains, the reader, and with chances fitted on train."""
    cards = 6
    fitted = read_outcomes(reader, pack, "train", "exact", items, cards)
    chances = fit_chances(fitted.shares, fitted.right)
    found = read_outcomes(reader, pack, "validation", "exact", items, cards)
    contract = np.array(reader.contract["chances"])
    return {
        "calls": len(found.right),
        "domain_table": round(unlikelihood(found.table, found.right), 4),
        "reader": round(unlikelihood(found.shares @ contract, found.right), 4),
        "reader_fitted": round(unlikelihood(found.shares @ chances, found.right), 4),
        "chances": [round(float(one), 3) for one in chances],
    }
