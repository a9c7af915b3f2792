#!/usr/bin/env bash
# Compares Reprise with Transformers on the chat templates in packages of PyPI (docs/howto/tool-calling.md).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
  echo "usage: scripts/compare_real_templates.sh [--only PATTERN]"
  echo "Downloads trl, axolotl and the source of llama-cpp-python (80 MB), and Transformers, into build/real-templates."
  exit
fi
reprise=build/release/bin/reprise
if [[ ! -x "$reprise" ]]; then
  echo "scripts/compare_real_templates.sh: $reprise is missing; scripts/test.sh builds it" >&2
  exit 2
fi
folder=build/real-templates
python="$folder/venv/bin/python"
if [[ ! -f "$folder/complete" ]]; then
  python3 -m venv "$folder/venv"
  "$python" -m pip -q install transformers==5.24.0 jinja2==3.1.6 scikit-build-core
  "$python" -m pip -q download --no-deps -d "$folder/packages" trl==1.16.0 axolotl==0.19.0
  "$python" -m pip -q download --no-deps --no-build-isolation --no-binary :all: -d "$folder/packages" llama-cpp-python==0.3.36
  mkdir -p "$folder/templates/trl" "$folder/templates/axolotl" "$folder/templates/llama.cpp"
  for package in trl axolotl; do
    "$python" -m zipfile -e "$folder/packages/$package"-*.whl "$folder/unpacked"
    find "$folder/unpacked/$package" -name '*.jinja*' -exec cp {} "$folder/templates/$package/" \;
  done
  tar -xzf "$folder"/packages/llama_cpp_python-*.tar.gz -C "$folder/templates/llama.cpp" --strip-components=5 \
    --wildcards '*/vendor/llama.cpp/models/templates/*.jinja'
  touch "$folder/complete"
fi
"$python" -B tests/oracle/real_templates.py "$reprise" models/reprise-tiny "$folder/templates" "$@"
