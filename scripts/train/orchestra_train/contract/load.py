"""The contract folder: texts and numbers that serving and training share, and the dumper both write JSON with."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[4]
CONTRACT_FOLDER = REPOSITORY / "models/contract"

Contract = dict[str, Any]


def load_contract(name: str, folder: Path = CONTRACT_FOLDER) -> Contract:
    """Texts and numbers of `slots-1`, `slots-2` or `beliefs-1`, with the hash that traces carry."""
    shared = json.loads((folder / "contract.json").read_text("utf-8"))
    own = json.loads((folder / f"{name}.json").read_text("utf-8"))
    return {**shared, **own, "hash": contract_hash(folder)}


def contract_hash(folder: Path = CONTRACT_FOLDER) -> str:
    """SHA-256 over every JSON file at the top of the folder, in name order: `NAME NUL LENGTH NUL BYTES` each."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.json"), key=lambda path: path.name):
        content = file.read_bytes()
        digest.update(f"{file.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def fill(template: str, values: Mapping[str, str]) -> str:
    """Puts values where the template says `{name}`; braces inside values stay as they are."""
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), template, flags=re.ASCII)


def dump_json(value: object) -> str:
    """JSON with the trained separators. Numbers are refused: the two languages print them differently."""
    _refuse_numbers(value)
    # JavaScript writes a lone surrogate as its escape; Python would leave it raw.
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", json.dumps(value, ensure_ascii=False))


def _refuse_numbers(value: object) -> None:
    if isinstance(value, dict):
        for member in value.values():
            _refuse_numbers(member)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_numbers(item)
    elif value is not None and not isinstance(value, str | bool):
        raise TypeError(f"no {type(value).__name__} in the contract's JSON")
