#!/usr/bin/env bash
# Installs the engines that benchmarks/bench_peers.py compares with, for this machine. llama.cpp and
# ik_llama.cpp are built from the sources of their Python packages with all instructions of the
# processor: the packages are built for many processors, and llama.cpp's is then up to twice as slow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: benchmarks/install_peers.sh [--only llama.cpp|ik_llama.cpp|openvino|vllm] [FOLDER]

Installs llama.cpp, ik_llama.cpp and OpenVINO GenAI into FOLDER (build/peers), and vLLM with Intel's
OpenMP library into build/vllm. Needs a C++ compiler and about 5 GB; takes 10 minutes on two cores.
Prints the command of a comparison. An engine that cannot be installed is left out with the reason.
TEXT
}

only=""
folder=build/peers
while [[ $# -gt 0 ]]; do
  case "$1" in
    -h | --help) usage; exit 0 ;;
    --only)
      only="${2:-}"
      case "$only" in
        llama.cpp | ik_llama.cpp | openvino | vllm) shift 2 ;;
        *) echo "benchmarks/install_peers.sh: --only is '$only', expected llama.cpp, ik_llama.cpp, openvino or vllm" >&2; exit 2 ;;
      esac ;;
    -*) echo "benchmarks/install_peers.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
    *) folder="$1"; shift ;;
  esac
done

python="$folder/bin/python"
if [[ ! -x "$python" ]]; then
  python3 -m venv "$folder"
fi
"$python" -m pip install -q --disable-pip-version-check numpy

engines=()
# install NAME COMMAND ...: the log of an engine that cannot be installed is kept.
install() {
  local name="$1" log
  shift
  [[ -z "$only" || "$only" == "$name" ]] || return 0
  log="$folder/$name.log"
  echo "Installing $name ..."
  if "$@" >"$log" 2>&1; then
    engines+=("$name")
  else
    echo "  left out: $(grep -v '^$' "$log" | tail -n 1) ($log)"
  fi
}

# GCC 12 drops stores to the 64 bytes that configure AMX tiles: its code then crashes. clang does not.
native_build() {
  local compilers=()
  if command -v clang++ >/dev/null; then compilers=(CC=clang CXX=clang++); fi
  env "${compilers[@]}" CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF" \
    CMAKE_BUILD_PARALLEL_LEVEL="$(nproc)" \
    "$python" -m pip install --disable-pip-version-check --no-cache-dir --no-binary "$1" "$1"
}
vllm_with_openmp() {
  scripts/compare_with_vllm.sh --only install
  build/vllm/bin/python -m pip install -q --disable-pip-version-check intel-openmp
}

install llama.cpp native_build llama-cpp-python
install ik_llama.cpp native_build ik-llama-cpp-python
install openvino "$python" -m pip install --disable-pip-version-check openvino-genai
install vllm vllm_with_openmp

if (( ${#engines[@]} == 0 )); then
  echo "No engine could be installed."
  exit 1
fi
list="$(IFS=,; echo "reprise,${engines[*]}")"
echo
echo "Installed: ${engines[*]}. Compare with"
echo "    $python tools/make_random_checkpoint.py qwen2.5-0.5b build/qwen --dtype bf16"
echo "    $python benchmarks/bench_peers.py build/release/bin/reprise build/qwen --engines $list --prompt 512,4096 --out build/peers-out"
