#!/usr/bin/env bash
# Test the lower bounds of the dependencies and their newest versions, each in an environment of its own.
#   scripts/versions.sh [lowest] [newest]
#   TORCH='torch==2.13.*' scripts/versions.sh lowest    with another torch than the lowest one
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3.11}
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
tests=(tests/model/test_program.py tests/model/test_program_json.py tests/test_checkpoint.py tests/cli/test_main.py)
[ $# -gt 0 ] || set -- lowest newest
for which in "$@"; do
  venv=$folder/$which; py=$venv/bin/python
  "$python" -m venv "$venv"
  "$py" -m pip install -qq --disable-pip-version-check uv
  resolution=highest; [ "$which" != lowest ] || resolution=lowest-direct
  override=$folder/override; : > "$override"; [ -z "${TORCH:-}" ] || echo "$TORCH" > "$override"
  "$py" -m uv pip install -q -p "$py" --resolution $resolution --override "$override" \
    ${PIP_FIND_LINKS:+--find-links "$PIP_FIND_LINKS"} -e ".[text,test]"
  echo "$which:"; "$py" -m uv pip list -q -p "$py"
  # as a user has it: without the hook that checks shapes, which has bounds of its own
  OMP_NUM_THREADS=1 "$py" -m pytest -q -o addopts='--import-mode=importlib --strict-markers' \
    -W ignore::DeprecationWarning "${tests[@]}"
done
