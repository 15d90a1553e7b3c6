#!/usr/bin/env bash
# Test the lower bounds of the dependencies and their newest versions, each in an environment of its own.
#   scripts/versions.sh [NAME...]                       by default lowest, hf-lowest and newest
#   scripts/versions.sh hf-5.17                         with this version of transformers
#   TORCH='torch==2.13.*' scripts/versions.sh lowest    with another torch than the one that would be chosen
#   ENVIRONMENTS=folder scripts/versions.sh             keep the environments there, and use them again
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3.11}
folder=${ENVIRONMENTS:-}
[ -n "$folder" ] || { folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; }
[ $# -gt 0 ] || set -- lowest hf-lowest newest
# programs, files, a command line, a few steps of training on prompts and on text, pictures
core=(
  tests/model/test_program.py tests/model/test_program_json.py tests/test_checkpoint.py tests/test_shipped.py
  tests/test_text_checkpoints.py tests/cli/test_main.py tests/cli/test_train.py tests/cli/test_text.py
  tests/training/test_trainer.py tests/training/test_resume.py tests/data/test_training_on_text.py
  tests/language/test_tokenizer.py tests/language/test_scores.py tests/report/test_tables.py
  tests/report/test_plots.py tests/search/test_space.py tests/search/test_study.py
)
hf=(tests/hf tests/test_onnx.py tests/test_conformance.py)
for which in "$@"; do
  resolution=highest; extras=text,hf,conformance,test; tests=("${hf[@]}"); more=()
  case $which in
    # by themselves: the extra `hf` needs newer versions of what it shares with the others
    lowest) resolution=lowest-direct; extras=text,viz,search,test; tests=("${core[@]}") ;;
    hf-lowest) resolution=lowest-direct ;;
    hf-*) more=("transformers==${which#hf-}.*") ;;
    newest) extras=text,viz,search,hf,conformance,test; tests=("${core[@]}" "${hf[@]}") ;;
    *) echo "unknown environment $which; choose lowest, hf-lowest, hf-VERSION or newest" >&2; exit 2 ;;
  esac
  venv=$folder/$which; py=$venv/bin/python
  [ -x "$py" ] || "$python" -m venv "$venv"
  "$py" -m pip install -qq --disable-pip-version-check uv
  override=$folder/override; : > "$override"; [ -z "${TORCH:-}" ] || echo "$TORCH" > "$override"
  "$py" -m uv pip install -q -p "$py" --resolution $resolution --override "$override" \
    ${PIP_FIND_LINKS:+--find-links "$PIP_FIND_LINKS"} -e ".[$extras]" "${more[@]}"
  echo "$which:"; "$py" -m uv pip list -q -p "$py"
  # as a user has it: without the hook that checks shapes, which has bounds of its own
  OMP_NUM_THREADS=1 "$py" -m pytest -q -o addopts='--import-mode=importlib --strict-markers' \
    -W ignore::DeprecationWarning "${tests[@]}"
done
