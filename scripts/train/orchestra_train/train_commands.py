"""The subcommands that make policies: `sft`, `grpo`, `export`, and `smoke`, which does all of it in miniature."""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import torch

from .ablation import VARIANTS, ablate
from .contract.load import load_contract
from .device import add_device_arguments, computes_in_half, pick_device, place
from .gguf_file import FORMATS, GgufModel, write_adapter, write_model
from .grpo import GrpoSettings, train_grpo
from .hf_file import open_base
from .journal import Journal, checkpoint_fingerprint
from .model import add_adapter
from .origin import load_learnt, refuse_other_contract
from .policy import BeliefsPolicy, Policy, SlotsPolicy
from .processes import count, is_first, join_processes, leave_processes
from .reading.reader import halve_frozen
from .reward import REWARDS
from .sampling import VllmSampler
from .sft import SftSettings, train_sft
from .sharding import shard, wants_recomputing, wants_sharding
from .smoke import smoke
from .tokenizer import TextTokenizer
from .world.roster import WHOLE_WORLD
from .written import MOST_TOKENS, WritingPolicy, stop_text

FILTERS = ("component", "paper", "none")


def add_training_commands(commands: Any) -> None:
    small = commands.add_parser("smoke", help="SFT, GRPO and export of a tiny model, with gates")
    small.add_argument("--out", type=Path, required=True)
    small.add_argument("--seed", type=int, default=1)
    small.set_defaults(run=_smoke)

    ablation = commands.add_parser("ablate", help="what each part of the recipe is worth, with the tiny model")
    ablation.add_argument("--out", type=Path, required=True, help="folder of the table; finished cells there are kept")
    ablation.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    ablation.add_argument("--steps", type=int, default=40, help="of SFT, and as many of GRPO")
    ablation.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), metavar="VARIANT")
    ablation.set_defaults(run=_ablate)

    sft = _training_parser(commands, "sft", "warm start from what the simulated world knows")
    sft.set_defaults(run=_sft)
    grpo = _training_parser(commands, "grpo", "reinforcement over whole runs; goes on from an sft in the same folder")
    grpo.add_argument("--reward", choices=REWARDS, default="gated_gdpo")
    grpo.add_argument("--filter", choices=FILTERS, default="component")
    grpo.add_argument("--written", action="store_true", help="slots-*: calls are written freely, and may be malformed")
    grpo.add_argument("--thinks", action="store_true", help="with --written: a thought comes before the call")
    grpo.add_argument("--most-tokens", type=int, default=MOST_TOKENS, help="with --written: of a turn")
    grpo.add_argument("--vllm", help="with --written: URL, ending in /v1, of a vLLM server that writes")
    grpo.add_argument("--adapter-folder", type=Path, help="with --vllm: where both see the adapter")
    grpo.add_argument("--key-variable", default="ORCHESTRA_TRAIN_API_KEY", help="variable that holds the server's key")
    grpo.set_defaults(run=_grpo)

    export = commands.add_parser("export", help="write what was trained as GGUF")
    _add_policy_arguments(export)
    export.add_argument("--format", choices=("adapter", *FORMATS), default="adapter")
    export.add_argument("--file", type=Path, required=True)
    export.set_defaults(run=_export, recompute=False, shard=False)


def _training_parser(commands: Any, name: str, words: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=words)
    _add_policy_arguments(parser)
    parser.add_argument(
        "--recompute", action="store_true", default=wants_recomputing(), help="less memory for a third more time"
    )
    parser.add_argument(
        "--shard",
        action="store_true",
        default=wants_sharding(),
        help="several processes: each holds a part of the model (FSDP2)",
    )
    parser.add_argument(
        "--from", dest="origin", type=Path, help="checkpoint of `cards`, or an adapter in GGUF, to start from"
    )
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--episodes", type=int, default=8, help="a step")
    parser.add_argument("--recorded", type=_share, default=0.0, help="share of episodes that replay recorded outcomes")
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--seed", type=int, default=1)
    return parser


def _share(text: str) -> float:
    if not 0 <= float(text) <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share of one")
    return float(text)


def _add_policy_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    parser.add_argument("--contract", choices=("beliefs-1", "slots-1", "slots-2"), default="beliefs-1")


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--base", type=Path, required=True, help="GGUF, or a Qwen3 in Hugging Face's form")
    parser.add_argument("--rank", type=int, default=16, help="of the adapter; 0 trains every weight")
    parser.add_argument("--out", type=Path, required=True, help="folder of checkpoints, metrics and plots")
    add_device_arguments(parser)
    parser.add_argument("--threads", type=int, default=1)


def open_model(arguments: argparse.Namespace, stages: tuple[str, ...], origin: Path | None = None) -> GgufModel:
    """The base with its adapter and the newest of the stages that lie in the folder, or the `origin` from elsewhere."""
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    join_processes()
    source = open_base(arguments.base)
    if arguments.rank > 0:
        add_adapter(source.model, arguments.rank, alpha=2 * arguments.rank)
    found = [path for stage in stages if (path := arguments.out / f"{stage}.pt").exists()]
    if found and origin:
        raise SystemExit(f"--from: {found[-1]} is what would be gone on from here: take another folder")
    if found:
        refuse_other_contract(found[-1], arguments.contract)
    if found or origin:
        load_learnt(source.model, found[-1] if found else origin)
    device = pick_device(arguments.device)
    place(source.model, device, computes_in_half(device, arguments.half))
    source.model.recomputes = arguments.recompute
    if arguments.shard:
        if count() == 1:
            raise SystemExit("--shard: there is one process; start several with torchrun or accelerate")
        shard(source.model)
    return source


def _open_policy(arguments: argparse.Namespace, stages: tuple[str, ...]) -> tuple[GgufModel, Policy]:
    source = open_model(arguments, stages, arguments.origin)
    # What is shared out over processes must be of one precision.
    if source.model.precision == torch.bfloat16 and not arguments.shard:
        halve_frozen(source.model)
    if getattr(arguments, "written", False):
        return source, _writing_policy(arguments, source)
    kind = BeliefsPolicy if arguments.contract == "beliefs-1" else SlotsPolicy
    return source, kind(source.model, TextTokenizer(source.metadata), load_contract(arguments.contract))


def _writing_policy(arguments: argparse.Namespace, source: GgufModel) -> WritingPolicy:
    if arguments.contract == "beliefs-1":
        raise SystemExit("--written: beliefs-1 writes no calls")
    contract, most = load_contract(arguments.contract), arguments.most_tokens
    sampler = None
    if arguments.vllm:
        if not arguments.adapter_folder or arguments.rank == 0:
            raise SystemExit("--vllm needs --adapter-folder and a --rank: the server is given adapters")
        key = os.environ.get(arguments.key_variable, "")
        vocabulary = source.model.config.vocabulary
        sampler = VllmSampler(arguments.vllm, arguments.adapter_folder, vocabulary, stop_text(contract), most, key)
    tokenizer = TextTokenizer(source.metadata)
    return WritingPolicy(source.model, tokenizer, contract, most, sampler, arguments.thinks)


def _rules(arguments: argparse.Namespace) -> dict[str, Any]:
    """`beliefs-1` acts by the rules of `slots-2`."""
    return load_contract("slots-1" if arguments.contract == "slots-1" else "slots-2")


def _sft(arguments: argparse.Namespace) -> None:
    _, policy = _open_policy(arguments, ())
    settings = SftSettings(
        arguments.steps,
        arguments.episodes,
        arguments.learning_rate,
        seed=arguments.seed,
        origin=checkpoint_fingerprint(arguments.origin),
        recorded=arguments.recorded,
        contract=arguments.contract,
    )
    _show(train_sft(policy, WHOLE_WORLD, _rules(arguments), settings, arguments.out))


def _grpo(arguments: argparse.Namespace) -> None:
    _, policy = _open_policy(arguments, ("sft",))
    settings = GrpoSettings(
        arguments.steps,
        arguments.episodes,
        learning_rate=arguments.learning_rate,
        reward=arguments.reward,
        filter=arguments.filter,
        seed=arguments.seed,
        origin=checkpoint_fingerprint(arguments.origin),
        recorded=arguments.recorded,
        contract=arguments.contract,
    )
    _show(train_grpo(policy, WHOLE_WORLD, _rules(arguments), settings, arguments.out))


def _show(journal: Journal) -> None:
    if is_first():
        print(journal.plot())
    leave_processes()


def _export(arguments: argparse.Namespace) -> None:
    if not any((arguments.out / f"{stage}.pt").exists() for stage in ("sft", "grpo")):
        raise SystemExit(f"nothing was trained in {arguments.out}")
    source = open_model(arguments, ("sft", "grpo"))
    trained_with = load_contract(arguments.contract)
    if arguments.format == "adapter":
        write_adapter(source, arguments.file, trained_with)
    else:
        write_model(source, arguments.file, arguments.format, trained_with)
    print(arguments.file)


def _smoke(arguments: argparse.Namespace) -> None:
    report = smoke(arguments.out, arguments.seed)
    print(json.dumps(report, indent=1))
    if not all(gate["ok"] for gate in report["gates"]):
        raise SystemExit("a gate failed")


def _ablate(arguments: argparse.Namespace) -> None:
    ablate(arguments.out, arguments.seeds, arguments.steps, arguments.variants)
    print((arguments.out / "ablation.md").read_text())
