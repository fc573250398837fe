"""The bundled policy: file, entry and card say the same."""

import hashlib
import json
import shutil
from pathlib import Path

from orchestra_train.contract.load import REPOSITORY, contract_hash
from orchestra_train.ship import ship_adapter

MODELS = REPOSITORY / "models"


def test_shipping_changes_the_file_its_entry_and_the_figures_and_nothing_else(tmp_path: Path) -> None:
    for name in ("downloads.json", "card-reader.md"):
        shutil.copyfile(MODELS / name, tmp_path / name)
    adapter, report = tmp_path / "mine.gguf", tmp_path / "world.json"
    adapter.write_bytes(b"weights")
    gates = [
        {"name": "valid", "value": 1.0, "bar": ">= 1", "ok": True},
        {"name": "cheap enough", "value": None, "bar": "<= 0.2", "ok": False},
    ]
    rows = {"trial": {"accuracy": 0.4321}, "estimate": {"accuracy": 0.3}}
    report.write_text(json.dumps({"pack": "world", "split": "seed 9", "tasks": 7, "gates": gates, "rows": rows}))

    ship_adapter(adapter, report, "trial", tmp_path)

    before, after = (json.loads((folder / "downloads.json").read_text()) for folder in (MODELS, tmp_path))
    [entry] = [model for model in after["models"] if model["id"] == "card-reader"]
    assert (entry["sizeBytes"], entry["sha256"]) == (7, hashlib.sha256(b"weights").hexdigest())
    assert entry["policy"]["contractHash"] == contract_hash()
    others = [[model for model in known["models"] if model["id"] != "card-reader"] for known in (before, after)]
    assert others[0] == others[1]
    shipped = json.loads((tmp_path / "card-reader.report.json").read_text())
    assert shipped["gates"] == gates
    card = (tmp_path / "card-reader.md").read_text()
    assert "| card-reader | 0.4321 | – |" in card and "| valid | 1.0 | >= 1 | ok |" in card
    assert "| cheap enough | – | <= 0.2 | not met |" in card
    assert card.count("| row |") == 1 and "**Limits.**" in card
