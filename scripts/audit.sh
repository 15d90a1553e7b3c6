#!/usr/bin/env bash
# Compare what `pip install algoformer[dev]` would install today with the advisories that PyPI publishes.
#   scripts/audit.sh [PYTHON-VERSION]                   for this version of Python, by default 3.13
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check uv pip-audit
"$folder/venv/bin/uv" pip compile -q --python-version "${1:-3.13}" --extra dev pyproject.toml -o "$folder/pins.txt"
"$folder/venv/bin/pip-audit" -r "$folder/pins.txt" --no-deps --disable-pip --strict
