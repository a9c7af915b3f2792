#!/usr/bin/env bash
# Plays many traces of tests/load/serve_storm.py, 2000 for each start of a server, each time with another seed.
# Every such part adds one line to build/traces/runs.txt, so a run can be stopped and counted at any time:
#
#   scripts/many_traces.sh [TRACES]      plays so many more; for example: scripts/many_traces.sh 100000
#   scripts/many_traces.sh 0             only counts
#
# The first difference ends the run; its traces and how to repeat them are then at the end of build/traces/log.txt.
set -euo pipefail
cd "$(dirname "$0")/.."

traces="${1:?number of traces}"
binary="${REPRISE_BINARY:-build/release/bin/reprise}"
mkdir -p build/traces
touch build/traces/runs.txt
for ((played = 0; played < traces; played += 2000)); do
  seed=$((1000 + $(wc -l <build/traces/runs.txt)))
  python3 tests/load/serve_storm.py "$binary" models/reprise-tiny --traces 2000 --pool 600 --together 8 --seed "$seed" \
    >build/traces/log.txt 2>&1 || { tail -40 build/traces/log.txt; exit 1; }
  grep " of seed $seed, " build/traces/log.txt >>build/traces/runs.txt
done
awk '{ traces += $1; requests += $6 } END { print "together", traces + 0, "traces,", requests + 0, "requests" }' build/traces/runs.txt
