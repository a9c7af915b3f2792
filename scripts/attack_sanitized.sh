#!/usr/bin/env bash
# Builds the server with AddressSanitizer and UndefinedBehaviorSanitizer and lets it be attacked (tests/load/attacks.py).
# A report ends the server, and so this script. The times that it prints mean nothing.
#
#   scripts/attack_sanitized.sh [JOBS] [SECONDS]      of the build; of each attack
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset asan >/dev/null
ninja -C build/asan -j "${1:-2}" reprise
# As in scripts/test.sh: GCC 12 misaligns 64-byte vectors on the fake stack.
export ASAN_OPTIONS="detect_stack_use_after_return=0:${ASAN_OPTIONS:-}" UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}"
python3 tests/load/attack_cost.py build/asan/bin/reprise models/reprise-tiny --rounds 1 --seconds "${2:-10}"
