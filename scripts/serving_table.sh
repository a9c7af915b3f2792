#!/usr/bin/env bash
# The serving table: PIECEWISE, FULL_AND_PIECEWISE and NONE under one load, the servers taking turns,
# medians with spread. Prints Markdown; raw results and pages go to a folder.
#
#   scripts/serving_table.sh [REPRISE_BINARY [FOLDER]]
#
# ROUNDS (5) rounds of the bundled model under 100 requests of some 233 + 217 tokens at 20 per second.
# Then a model of the shape of Qwen2.5-0.5B with made-up weights, under a load that two cores sustain:
# SHAPE_ROUNDS (3) rounds of SHAPE_PROMPTS (20) requests of SHAPE_INPUT (64) + SHAPE_OUTPUT (32) tokens
# at SHAPE_RATE (0.5) per second; SHAPE_ROUNDS=0 leaves it out.
set -euo pipefail
cd "$(dirname "$0")/.."

binary="${1:-build/release/bin/reprise}"
folder="${2:-build/serving_table}"
rounds="${ROUNDS:-5}"
shape_rounds="${SHAPE_ROUNDS:-3}"
shape_prompts="${SHAPE_PROMPTS:-20}"
shape_input="${SHAPE_INPUT:-64}"
shape_output="${SHAPE_OUTPUT:-32}"
shape_rate="${SHAPE_RATE:-0.5}"

if [[ ! -x "$binary" ]]; then
  echo "serving_table.sh: $binary is not a program; build it first (scripts/quickstart.sh) or name another" >&2
  exit 2
fi

cpu="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)"
memory_gib="$(awk '/^MemTotal:/ {printf "%.0f", $2 / 1048576}' /proc/meminfo)"
commit="$(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
[[ -z "$(git status --porcelain --untracked-files=no 2>/dev/null)" ]] || commit="$commit with changes"
echo "Machine: $cpu, $(nproc) cores, $memory_gib GiB; load average before: $(cut -d' ' -f1-3 /proc/loadavg)."
echo "Commit: $commit. $("$binary" --version | head -1)."
echo

echo "## Bundled model"
echo
"$binary" bench sweep --preset cudagraph-modes --num-runs "$rounds" -o "$folder/bundled" \
  --serve-cmd "reprise serve models/reprise-tiny --kv-cache-memory-bytes 256M" \
  --bench-cmd "--num-prompts 100 --random-input-len 233 --random-output-len 217 --random-range-ratio 0.3 --request-rate 20 --num-warmups 4"

if (( shape_rounds > 0 )); then
  echo "## 0.5B shape, made-up weights"
  echo
  "$binary" bench sweep --preset cudagraph-modes --num-runs "$shape_rounds" -o "$folder/shape-0.5b" \
    --serve-cmd "reprise serve benchmarks/shapes/qwen2.5-0.5b --load-format dummy --tokenizer models/reprise-tiny --max-num-seqs 32 --max-model-len 1024 --kv-cache-memory-bytes 256M" \
    --bench-cmd "--num-prompts $shape_prompts --random-input-len $shape_input --random-output-len $shape_output --random-range-ratio 0.3 --request-rate $shape_rate --num-warmups 2"
fi
echo "Load average after: $(cut -d' ' -f1-3 /proc/loadavg)."
