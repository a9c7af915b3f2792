#!/usr/bin/env bash
# Reprise and vLLM under the same load, all servers alive, taking turns:
#   benchmarks/serving_vs_vllm.sh MODEL VLLM_PYTHON [ROUNDS [FOLDER]]
# 32 requests of 230 random prompt tokens and 215 output tokens; greedy, bfloat16. One round with other prompts warms
# all up. VLLM_PYTHON: the interpreter of an environment with vLLM (docs/howto/compare-with-vllm.md).
# RATES ("inf"): requests per second, one load after the other; inf: all at once.
# QUANTIZED ("int8 q8_0", say): adds Reprise with weights that are quantised while loading, a server for each word.
set -euo pipefail
model="$1" python="$2" rounds="${3:-5}" out="${4:-build/serving_vs_vllm}"
read -ra rates <<<"${RATES:-inf}"
binary=build/release/bin/reprise
mkdir -p "$out"
servers=()
names=()
declare -A ports
trap 'kill "${servers[@]}" 2>/dev/null || true' EXIT

# start NAME PORT COMMAND ...: waits until the server is healthy and says how long that took.
start() {
  local name="$1" port="$2" begin
  shift 2
  begin="$(date +%s%N)"
  "$@" --port "$port" --served-model-name m --max-model-len 1024 --max-num-seqs 64 >"$out/$name.log" 2>&1 &
  servers+=($!)
  names+=("$name")
  ports[$name]="$port"
  until curl -sf "localhost:$port/health" >/dev/null; do
    kill -0 "${servers[-1]}" || { tail -5 "$out/$name.log" >&2; exit 1; }
    sleep 0.02
  done
  echo "$name ready after $(( ($(date +%s%N) - begin) / 1000000 )) ms"
}
# measure NAME RATE SEED
measure() {
  local result="$out/$1-$2-$3.txt"
  "$binary" bench serve --port "${ports[$1]}" --model m --tokenizer "$model" --num-prompts 32 --random-input-len 230 \
    --random-output-len 215 --ignore-eos --temperature 0 --request-rate "$2" --seed "$3" >"$result" 2>&1
  echo "$1, rate $2, seed $3: $(grep -E 'Output token throughput|(Mean|P99) (TTFT|TPOT)' "$result" | tr -s ' ' | tr '\n' ';')"
}

VLLM_CPU_KVCACHE_SPACE=2 VLLM_CPU_OMP_THREADS_BIND="0-$(( $(nproc) - 1 ))" VLLM_LOGGING_LEVEL=WARNING \
  start vllm 8102 "$python" -m vllm.entrypoints.openai.api_server --model "$model" --dtype bfloat16
start reprise 8101 "$binary" serve "$model" --dtype bfloat16 --kv-cache-memory-bytes 2G
read -ra quantized <<<"${QUANTIZED:-}"
for (( i = 0; i < ${#quantized[@]}; i++ )); do
  start "reprise-${quantized[i]}" $((8103 + i)) "$binary" serve "$model" --quantization "${quantized[i]}" --kv-cache-memory-bytes 2G
done
for name in "${names[@]}"; do measure "$name" inf 100; done
# Every load has a seed of its own: a server that has seen its prompts would answer from the prefix cache.
seed=0
for rate in "${rates[@]}"; do
  for (( i = 0; i < rounds; i++ )); do
    for (( k = 0; k < ${#names[@]}; k++ )); do measure "${names[(i + k) % ${#names[@]}]}" "$rate" "$seed"; done
    seed=$(( seed + 1 ))
  done
done
