#!/usr/bin/env bash
# Reprise and vLLM under the same load, both servers alive, taking turns:
#   benchmarks/serving_vs_vllm.sh MODEL VLLM_PYTHON [ROUNDS [FOLDER]]
# 32 requests of 230 random prompt tokens and 215 output tokens arrive at once; greedy, bfloat16. One round with other
# prompts warms both up. VLLM_PYTHON: the interpreter of an environment with vLLM (docs/howto/compare-with-vllm.md).
set -euo pipefail
model="$1" python="$2" rounds="${3:-5}" out="${4:-build/serving_vs_vllm}"
binary=build/release/bin/reprise
mkdir -p "$out"
servers=()
trap 'kill "${servers[@]}" 2>/dev/null || true' EXIT

# start NAME PORT COMMAND ...: waits until the server is healthy and says how long that took.
start() {
  local name="$1" port="$2" begin
  shift 2
  begin="$(date +%s%N)"
  "$@" --port "$port" >"$out/$name.log" 2>&1 &
  servers+=($!)
  until curl -sf "localhost:$port/health" >/dev/null; do
    kill -0 "${servers[-1]}" || { tail -5 "$out/$name.log" >&2; exit 1; }
    sleep 0.02
  done
  echo "$name ready after $(( ($(date +%s%N) - begin) / 1000000 )) ms"
}
# measure NAME PORT SEED
measure() {
  "$binary" bench serve --port "$2" --model m --tokenizer "$model" --num-prompts 32 --random-input-len 230 \
    --random-output-len 215 --ignore-eos --temperature 0 --seed "$3" >"$out/$1-$3.txt" 2>&1
  echo "$1 $3: $(grep -E 'Output token throughput|Mean TTFT|Mean TPOT' "$out/$1-$3.txt" | tr -s ' ' | tr '\n' ';')"
}

VLLM_CPU_KVCACHE_SPACE=2 VLLM_CPU_OMP_THREADS_BIND="0-$(( $(nproc) - 1 ))" VLLM_LOGGING_LEVEL=WARNING \
  start vllm 8102 "$python" -m vllm.entrypoints.openai.api_server --model "$model" --served-model-name m \
  --dtype bfloat16 --max-model-len 1024 --max-num-seqs 64
start reprise 8101 "$binary" serve "$model" --served-model-name m --dtype bfloat16 --max-model-len 1024 \
  --max-num-seqs 64 --kv-cache-memory-bytes 2G
measure reprise 8101 100
measure vllm 8102 100
for (( i = 0; i < rounds; i++ )); do
  if (( i % 2 )); then
    measure vllm 8102 "$i"
    measure reprise 8101 "$i"
  else
    measure reprise 8101 "$i"
    measure vllm 8102 "$i"
  fi
done
