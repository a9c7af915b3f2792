#!/usr/bin/env bash
# From a fresh Debian 12 machine to text from a language model: installs what is missing, builds,
# generates, and shows what each CUDA-graph mode did. Run it as often as you like; done work stays.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
usage() {
  cat <<'TEXT'
usage: scripts/quickstart.sh [--cuda]

Installs what is missing (Debian packages), builds build/release/bin/reprise, generates text with
the bundled model and compares the CUDA-graph modes. Where an NVIDIA driver and the nvcc of CUDA 13
or newer are installed, it also builds the kernels for this machine's GPU.

  --cuda   builds the kernels for NVIDIA GPUs wherever that nvcc is; takes minutes longer
TEXT
}
asks_for_cuda=false
for argument in "$@"; do
  case "$argument" in
    --cuda) asks_for_cuda=true ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      echo "scripts/quickstart.sh does not know '$argument'; try --help" >&2
      exit 2
      ;;
  esac
done
source scripts/build.sh

if [[ -t 1 && -z "${NO_COLOR:-}" && "${TERM:-dumb}" != dumb ]]; then
  bold=$'\e[1m' plain=$'\e[0m'
else
  bold="" plain=""
fi
say() { printf '%s%s%s\n' "$bold" "$*" "$plain"; }
run() {
  # Prints a command as a user would type it.
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

# The major version of the nvcc that CMake finds; nothing if there is none.
cuda_version() {
  local nvcc
  for nvcc in "${CUDA_PATH:+$CUDA_PATH/bin/nvcc}" "$(command -v nvcc)" /usr/local/cuda/bin/nvcc; do
    [[ -x "$nvcc" ]] || continue
    "$nvcc" --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p'
    return
  done
}

# The compute capabilities of this machine's GPUs, such as 90, one per line.
capabilities() {
  nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d '. ' | grep -E '^[0-9]+$' | sort -nu || true
}

# The architectures to compile for: machine code of 8.0 runs on 8.6 and 8.9 too.
architectures() {
  local capability list=""
  for capability in $(capabilities); do
    case "$capability" in
      8?) capability=80 ;;
      90) capability=90a ;;
      [1-7]?) continue ;;
    esac
    [[ ";$list;" == *";$capability;"* ]] || list+="${list:+;}$capability"
  done
  echo "$list"
}

# Decides about the GPU: sets cmake_arguments, and the reason if no kernels for it are built.
choose_cuda() {
  local version gpus
  version="$(cuda_version)"
  gpus="$(architectures)"
  no_cuda="" needs_toolkit="install the toolkit of CUDA 13 or newer, then run scripts/quickstart.sh --cuda"
  if $asks_for_cuda; then
    if (( ${version:-0} < 13 )); then
      echo "scripts/quickstart.sh --cuda needs nvcc of CUDA 13 or newer${version:+ (found: $version)}: put it into the PATH or set CUDA_PATH" >&2
      exit 1
    fi
    cmake_arguments=(-DREPRISE_CUDA=ON -DREPRISE_CUDA_FAST_COMPILE=OFF ${gpus:+"-DREPRISE_CUDA_ARCHITECTURES=$gpus"})
  elif [[ -z "$(capabilities)" ]]; then
    no_cuda="nvidia-smi finds no GPU here"
    if (( ${version:-0} >= 13 )); then
      no_cuda+="; scripts/quickstart.sh --cuda builds them anyway"
    fi
  elif [[ -z "$gpus" ]]; then
    no_cuda="the GPU is older than compute capability 8.0"
  elif [[ -z "$version" ]]; then
    no_cuda="there is no nvcc here; $needs_toolkit"
  elif (( version < 13 )); then
    no_cuda="nvcc here is of CUDA $version; $needs_toolkit"
  else
    cmake_arguments=(-DREPRISE_CUDA=ON -DREPRISE_CUDA_FAST_COMPILE=OFF "-DREPRISE_CUDA_ARCHITECTURES=$gpus")
  fi
  # An existing build folder stays as its owner has configured it.
  if [[ -n "$no_cuda" && ! -f build/release/build.ninja ]]; then
    cmake_arguments=(-DREPRISE_CUDA=OFF)
  fi
}

reprise=build/release/bin/reprise
model=models/reprise-tiny
prompt="Once upon a time"

choose_cuda
if [[ -z "$no_cuda" ]]; then scripts/setup.sh; else scripts/setup.sh --without-flashinfer; fi
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
if [[ -n "$no_cuda" && ! -e build/release/bin/reprise_cuda.so ]]; then
  echo "Built without the kernels for NVIDIA GPUs: $no_cuda."
fi
