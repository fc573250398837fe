"""llama.cpp beside torch, through Node: the engine that serves what is exported here."""

import json
import subprocess
from pathlib import Path
from typing import Any

from orchestra_train.contract.load import REPOSITORY


def ask_engine(model: Path, texts: list[str], **more: Any) -> dict[str, Any]:
    """Token ids of the texts; with `prompt` and `greedy` also the likeliest next tokens, step by step.

    `segments` are tokenised and `judge` is graded as the gateway does it.
    """
    question = json.dumps({"model": str(model), "texts": texts, **more})
    script = Path(__file__).with_name("engine.mjs")
    done = subprocess.run(
        ["node", "--import", "tsx", script],
        input=question,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=REPOSITORY,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)
