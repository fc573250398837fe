#!/usr/bin/env bash
# The official Python client, in a virtual environment of its own, against a whole gateway on loopback servers.
set -euo pipefail
cd "$(dirname "$0")"
environment=$(mktemp -d)
trap 'rm -rf "$environment"' EXIT
python3 -m venv "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check -r requirements.txt
export PYTHONDONTWRITEBYTECODE=1
"$environment/bin/python" -m pytest -p no:cacheprovider -q "$@" .
