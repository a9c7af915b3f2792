#!/usr/bin/env bash
# Runs real clients from PyPI against `reprise serve` of the bundled model. Downloads them (about 4 GB
# installed) into build/clients-venv, so it is not part of the test suite.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/test_clients.sh [MODULE ...]     e.g. test_openai test_lm_eval; default: all

  REPRISE=BINARY   the server to test; default: build/release/bin/reprise, built first
  VENV=FOLDER      where the clients are installed; default: build/clients-venv
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
export REPRISE
venv="${VENV:-$PWD/build/clients-venv}"
[[ -x "$venv/bin/python" ]] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -r tests/clients/requirements.txt
export PATH="$venv/bin:$PATH"

modules=("$@")
if (( ${#modules[@]} == 0 )); then
  for file in tests/clients/test_*.py; do modules+=("$(basename "$file" .py)"); done
fi
cd tests/clients
for module in "${modules[@]}"; do
  echo "== $module"
  python -B -W ignore -m unittest "$module"
done
