import json
import subprocess
from pathlib import Path

import openai
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def gateway():
    """Address and key of a gateway that ends with this session."""
    command = ["node", "--import", "tsx", "test/clients/gateway.ts"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        assert line, "the gateway did not start; its words are above"
        yield json.loads(line)
        process.stdin.close()
        assert process.wait(timeout=30) == 0


@pytest.fixture
def client(gateway):
    with openai.OpenAI(**gateway, max_retries=0) as client:
        yield client
