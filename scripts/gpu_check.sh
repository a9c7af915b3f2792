#!/usr/bin/env bash
# Builds Reprise on a machine with an NVIDIA GPU and proves there what no other machine can prove.
#
#   scripts/gpu_check.sh              all sections; those that passed with these sources are skipped
#     --time-limit SECONDS            for everything (600); --output DIR: rows, logs, report, one archive
#     --only NAME                     one section, even if it passed
#   scripts/gpu_check.sh --dry-run    what each section proves, and what it would run
#   scripts/gpu_check.sh --configure  only configures the build, in REPRISE_GPU_CHECK_BUILD if that is set
#   scripts/gpu_check.sh --prepare    on a machine with Debian's packages: puts what a CUDA image
#                                     lacks into .gpu-deps (headers and libraries; not committed), and
#                                     FlashInfer's headers if scripts/setup.sh has downloaded them
#
# Needs nvcc, cmake, ninja, a C++20 compiler and python3; installs nothing and needs no network. Rows of
# results are on disk as soon as they are measured, so a check that is cut off keeps what it had.
# gpu_check.py has the sections and their limits.
set -uo pipefail
cd "$(dirname "$0")/.."

BUILD="${REPRISE_GPU_CHECK_BUILD:-build/gpu-check}"
DEPS=.gpu-deps
PACKAGES=(libfmt-dev libfmt9 nlohmann-json3-dev libpcre2-dev libpcre2-8-0 libutf8proc-dev
          libutf8proc2 libxxhash-dev libxxhash0 libssl-dev libssl3 libgtest-dev libgmock-dev)

say() { printf '%s\n' "$*" >&2; }

configure() {
  local prefix=()
  if [[ -d $DEPS ]]; then
    prefix=(-DCMAKE_PREFIX_PATH="$PWD/$DEPS/usr" "-DCMAKE_LIBRARY_ARCHITECTURE=$(ls $DEPS/usr/lib | grep -m1 linux-gnu)")
    export PKG_CONFIG_PATH="$(echo "$PWD"/$DEPS/usr/lib/*/pkgconfig):$PWD/$DEPS/usr/share/pkgconfig"
    export PKG_CONFIG_SYSROOT_DIR="$PWD/$DEPS"
  fi
  if [[ -d $DEPS/flashinfer ]]; then
    prefix+=("-DREPRISE_FLASHINFER=$PWD/$DEPS/flashinfer/include;$PWD/$DEPS/flashinfer/cutlass/include;$PWD/$DEPS/flashinfer/cccl/libcudacxx/include")
  fi
  # Builds neither the server nor the command line: their libraries are large, and nothing here needs them.
  cmake -S . -B "$BUILD" -G Ninja -DCMAKE_BUILD_TYPE=Release -DREPRISE_CUDA=ON -DREPRISE_WERROR=OFF \
    -DREPRISE_BUILD_EXAMPLES=OFF "-DREPRISE_CUDA_ARCHITECTURES=${GPU_CHECK_ARCHITECTURES:-90a}" \
    "-DREPRISE_FOLDERS=base;parallel;device;tensor;cudagraph;config;kernels;kv_cache;weights;tokenizer;chat_template;attention;sampling;speculative;structured_output;replay_log;hub;lora;models;program;compile;scheduler;runner;engine;output_parsers;api" \
    "${prefix[@]}" || return 1
  # A library of a folder that was not built would be linked from the machine instead: refuse that.
  if grep -q -- '-lreprise_' "$BUILD/build.ninja"; then
    say "gpu_check: missing in REPRISE_FOLDERS: $(grep -o -- '-lreprise_[a-z_]*' "$BUILD/build.ninja" | sort -u | tr '\n' ' ')"
    return 1
  fi
}

build() {
  configure &&
    ninja -C "$BUILD" cuda_device_conformance_test cuda_executor_test cuda_row_sampler_test \
      cuda_engine_test cuda_sleep_test cuda_architectures_test nccl_ranks_test cuda_rank_engines_test \
      cuda_benchmark reprise_cuda
}

# One tool on one small case, which launches eagerly and from graphs, with programmatic dependent launch.
sanitize() {
  compute-sanitizer --tool memcheck --error-exitcode 9 "$BUILD/bin/cuda_engine_test" \
    --gtest_filter='CudaEngine.launches_five_kernels_a_layer_for_few_rows_with_the_bits_of_level_0'
}

# The headers that the kernels include, 17 MB.
prepare_flashinfer() {
  local wheel header
  wheel="$(ls build/downloads/flashinfer_python-*.whl 2>/dev/null | tail -1)"
  if [[ -z "$wheel" ]] || ! command -v nvcc >/dev/null; then
    say "gpu_check: without FlashInfer's kernels: scripts/setup.sh downloads them where nvcc is"
    return
  fi
  python3 -m zipfile -e "$wheel" "$1/wheel"
  local data="$1/wheel/flashinfer/data"
  for source in flashinfer_kernels flashinfer_prompts; do
    nvcc -M -std=c++20 --expt-relaxed-constexpr -arch=sm_90a -Isrc "-I$data/include" "-I$data/cutlass/include" \
      "-I$data/cccl/libcudacxx/include" "src/reprise/kernels/cuda/$source.cu"
  done | tr ' \\' '\n\n' | grep -F "$data/" | sort -u | while read -r header; do
    header="${header#"$data/"}"
    mkdir -p "$DEPS/flashinfer/$(dirname "$header")"
    cp "$data/$header" "$DEPS/flashinfer/$header"
  done
}

prepare() {
  local folder
  folder="$(mktemp -d)"
  rm -rf "$DEPS"
  mkdir -p "$DEPS"
  (cd "$folder" && apt-get download "${PACKAGES[@]}") || return 1
  for package in "$folder"/*.deb; do dpkg -x "$package" "$DEPS"; done
  prepare_flashinfer "$folder"
  rm -rf "$folder" "$DEPS"/usr/share/{doc,man,lintian,bug} "$DEPS"/usr/bin \
    "$DEPS"/usr/lib/*/libpcre2-{16,32,posix}*
  du -sh "$DEPS"
}

case "${1:-}" in
  --prepare) prepare; exit ;;
  --configure) configure; exit ;;
  --section) # one that gpu_check.py runs
    case "${2:-}" in
      build) build ;;
      sanitizer) sanitize ;;
      *) say "gpu_check: --section takes build or sanitizer"; exit 2 ;;
    esac
    exit ;;
esac

if [[ " $* " != *" --dry-run "* && " $* " != *" --help "* ]]; then
  command -v nvcc >/dev/null || export PATH="${CUDA_PATH:+$CUDA_PATH/bin:}$PATH"
  if ! command -v nvcc >/dev/null; then
    say "gpu_check: no nvcc: put it into the PATH, or set CUDA_PATH to the toolkit"
    exit 2
  fi
  if ! command -v nvidia-smi >/dev/null && [[ ! -e /dev/nvidia0 ]]; then
    say "gpu_check: no NVIDIA driver here; --dry-run says what would be proved with one"
    exit 2
  fi
fi
[[ -d $DEPS ]] && export LD_LIBRARY_PATH="$(echo "$PWD"/$DEPS/usr/lib/*linux-gnu):${LD_LIBRARY_PATH:-}"
exec python3 -B scripts/gpu_check.py --build "$BUILD" "$@"
