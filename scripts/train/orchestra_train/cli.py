"""The command line: one subcommand a job."""

import argparse
from pathlib import Path

from .card_commands import add_card_commands
from .evaluate_command import add_evaluate_command
from .function_commands import add_function_commands
from .gpu_command import add_gpu_command
from .pack_command import add_pack_command
from .ship import add_ship_command
from .tool_commands import add_tool_commands
from .trace_commands import add_trace_commands
from .train_commands import add_training_commands

REPOSITORY = Path(__file__).resolve().parents[3]


def main() -> None:
    parser = argparse.ArgumentParser(prog="orchestra-train", description="Makes what the gateway decides with.")
    commands = parser.add_subparsers(required=True)

    embedding = commands.add_parser("embedding", help="export the sentence embedding as a GGUF")
    embedding.add_argument("--models", type=Path, default=REPOSITORY / "models")
    embedding.add_argument("--golden", type=Path, default=REPOSITORY / "test/golden/embedding.json")
    embedding.set_defaults(run=_embedding)

    heads = commands.add_parser("heads", help="train domain, difficulty and needs on the replay packs")
    heads.add_argument("--models", type=Path, default=REPOSITORY / "models")
    heads.add_argument("--cache", type=Path, help="folder that keeps the vectors of the packs between runs")
    heads.set_defaults(run=_heads)

    add_card_commands(commands)
    add_pack_command(commands)
    add_gpu_command(commands)
    add_training_commands(commands)
    add_tool_commands(commands)
    add_function_commands(commands)
    add_trace_commands(commands)
    add_evaluate_command(commands)
    add_ship_command(commands)

    arguments = parser.parse_args()
    arguments.run(arguments)


def _embedding(arguments: argparse.Namespace) -> None:
    from .embedding import FILE_NAME, export, fetch_source, refresh_golden

    source = fetch_source()
    print(export(source, arguments.models / FILE_NAME), FILE_NAME)
    refresh_golden(source, arguments.golden)


def _heads(arguments: argparse.Namespace) -> None:
    from .heads import train_heads

    train_heads(arguments.models, arguments.cache)


if __name__ == "__main__":
    main()
