#!/usr/bin/env bash
# Builds the server with AddressSanitizer and UndefinedBehaviorSanitizer, then runs the tests of attacks and
# tests/load/attacks.py against it. A report of a sanitizer ends the server and this script. The times that the attacks
# print mean nothing here.
#
#     scripts/attack_sanitized.sh [JOBS] [SECONDS]      jobs of the build; seconds of each attack
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset asan >/dev/null
ninja -C build/asan -j "${1:-2}" reprise
# As in scripts/test.sh: GCC 12 misaligns 64-byte vectors on the fake stack.
export ASAN_OPTIONS="detect_stack_use_after_return=0:${ASAN_OPTIONS:-}" UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}"
program=build/asan/bin/reprise model=models/reprise-tiny
for test in http_conformance server_rules request_cases; do
  python3 -B "tests/integration/${test}_test.py" "$program" "$model"
done
python3 -B tests/integration/kv_transfer_test.py "$program" "$model" deploy/disaggregated/proxy.py
python3 -B tests/integration/kv_events_test.py "$program" "$model" "$PWD" --any-memory || [[ $? == 77 ]] # 77: no pyzmq here
python3 -B tests/integration/request_memory_test.py "$program" "$model" --any-memory
python3 -B tests/load/attack_cost.py "$program" "$model" --rounds 1 --seconds "${2:-3}"
