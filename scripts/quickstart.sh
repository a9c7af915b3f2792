#!/usr/bin/env bash
# From a fresh Debian 12 machine to text from a language model: installs what is missing, builds,
# generates, and shows what each CUDA-graph mode did. Run it as often as you like; done work stays.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case "${1:-}" in
  "") ;;
  -h | --help)
    echo "usage: scripts/quickstart.sh"
    echo "Installs what is missing (Debian packages), builds build/release/bin/reprise, generates"
    echo "text with the bundled model and compares the CUDA-graph modes."
    exit 0
    ;;
  *)
    echo "scripts/quickstart.sh takes no arguments (got '$1'); try --help" >&2
    exit 2
    ;;
esac
source scripts/build.sh

if [[ -t 1 && -z "${NO_COLOR:-}" && "${TERM:-dumb}" != dumb ]]; then
  bold=$'\e[1m' plain=$'\e[0m'
else
  bold="" plain=""
fi
say() { printf '%s%s%s\n' "$bold" "$*" "$plain"; }
run() {
  # Printed as one would type it.
  local word line=""
  for word in "$@"; do
    case "$word" in
      *[!a-zA-Z0-9_./:=-]*) line+=" \"$word\"" ;;
      *) line+=" $word" ;;
    esac
  done
  say "\$$line"
  "$@"
  echo
}

reprise=build/release/bin/reprise
model=models/reprise-tiny
prompt="Once upon a time"

scripts/setup.sh
if [[ ! -x "$reprise" ]]; then
  say "Building Reprise (the first time takes minutes) ..."
fi
build release reprise

echo
say "1. The bundled model continues a sentence. Every step runs through the graph dispatcher."
run "$reprise" generate "$model" --prompt "$prompt"
say "2. The same model in all five modes: what was captured, what was replayed, how fast it was."
run "$reprise" bench modes "$model"
say "Next:"
printf '  %s\n      %s\n' \
  "$reprise explain --batch decode:33" "why a batch uses a graph, or does not" \
  "$reprise generate /path/to/Qwen2.5-0.5B-Instruct --chat --prompt \"...\"" "a model of your own" \
  "scripts/test.sh" "build and run every test"
