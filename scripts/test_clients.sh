#!/usr/bin/env bash
# Runs real clients from PyPI against `reprise serve` of the bundled model. Downloads them (about 12 GB
# installed, 7 of them for Open WebUI) into build/clients-venv, so it is not part of the test suite.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/test_clients.sh [MODULE ...]     e.g. test_anthropic test_lm_eval; default: all

  REPRISE=BINARY   the server to test; default: build/release/bin/reprise, built first
  VENV=FOLDER      where the clients are installed, and in FOLDER-agents,
                   FOLDER-coding-agents, FOLDER-aider and FOLDER-open-webui;
                   default: build/clients-venv
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
modules=("$@")
if (( ${#modules[@]} == 0 )); then
  for file in tests/clients/test_*.py; do modules+=("$(basename "$file" .py)"); done
fi
for module in "${modules[@]}"; do
  folder="$venv" requirements=requirements.txt
  case "$module" in
    test_coding_agents) folder="$venv-coding-agents" requirements=coding-agents-requirements.txt ;;
    test_aider) folder="$venv-aider" requirements=aider-requirements.txt ;;
    test_open_webui) folder="$venv-open-webui" requirements=open-webui-requirements.txt ;;
    test_anthropic | test_ollama | test_responses) folder="$venv-agents" requirements=agents-requirements.txt ;;
  esac
  [[ -x "$folder/bin/python" ]] || python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check -r "tests/clients/$requirements"
  echo "== $module"
  (cd tests/clients && PATH="$folder/bin:$PATH" python -B -W ignore -m unittest "$module")
done
