#!/usr/bin/env bash
# Runs tests while their threads sleep for random moments at locks (tools/delay_locks.c). Exit code 0: all passed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/test_with_delays.sh [--build FOLDER] [--seeds N] [--label REGEX | --only BINARY]

  --build FOLDER  a build without sanitizers, build/release by default
  --seeds N       runs with the seeds 1 to N, 3 by default
  --label REGEX   ctest's tests with this label, ^tsan$ by default: those with threads
  --only BINARY   instead: this program, which must have slept at least once
TEXT
}

folder=build/release
seeds=3
label='^tsan$'
only=
while [[ $# -gt 0 ]]; do
  case "$1" in
    -h | --help) usage; exit 0 ;;
    --build | --seeds | --label | --only)
      if [[ $# -lt 2 ]]; then echo "scripts/test_with_delays.sh: $1 needs a value" >&2; exit 2; fi
      case "$1" in
        --build) folder="$2" ;;
        --seeds) seeds="$2" ;;
        --label) label="$2" ;;
        --only) only="$2" ;;
      esac
      shift 2 ;;
    *) echo "scripts/test_with_delays.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
done
if [[ ! "$seeds" =~ ^[1-9][0-9]{0,5}$ ]]; then
  echo "scripts/test_with_delays.sh: --seeds is '$seeds', expected a whole number from 1 to 999999" >&2
  exit 2
fi

made="$(mktemp -d)"
trap 'rm -rf "$made"' EXIT
library="$made/delay_locks.so"
"${CC:-cc}" -x c -std=gnu11 -O2 -Wall -Wextra -Werror -shared -fPIC tools/delay_locks.c -o "$library" -ldl -pthread

failed=0
for ((seed = 1; seed <= seeds; ++seed)); do
  delayed=(env "LD_PRELOAD=$library" "DELAY_LOCKS_SEED=$seed")
  if [[ -n "$only" ]]; then
    "${delayed[@]}" DELAY_LOCKS_REPORT=1 "$only" 2>"$made/said" || failed=1
    cat "$made/said" >&2
    if ! grep -qE '^delay_locks: slept [1-9][0-9]* times$' "$made/said"; then
      echo "scripts/test_with_delays.sh: no thread of $only slept" >&2
      failed=1
    fi
  else
    echo "Seed $seed:"
    "${delayed[@]}" ctest --test-dir "$folder" --output-on-failure -L "$label" || failed=1
  fi
done
exit "$failed"
