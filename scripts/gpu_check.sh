#!/usr/bin/env bash
# Builds Reprise on a machine with an NVIDIA GPU and proves there what no other machine can prove.
#
#   scripts/gpu_check.sh              all sections; those that passed for this commit are skipped
#   scripts/gpu_check.sh --dry-run    what each section proves, and what it would run
#   scripts/gpu_check.sh --only NAME  one section, even if it passed
#   scripts/gpu_check.sh --configure  only configures the build, in REPRISE_GPU_CHECK_BUILD if that is set
#   scripts/gpu_check.sh --prepare    on a machine with Debian's packages: puts what a CUDA image
#                                     lacks into .gpu-deps (headers and libraries; not committed)
#
# Needs nvcc, cmake, ninja, a C++20 compiler and python3; installs nothing and needs no network. The
# sections together take ten minutes at most on sixteen cores; each has a limit of its own. Results
# go to benchmarks/results as one JSON and one Markdown file; the short table is printed last.
set -uo pipefail
cd "$(dirname "$0")/.."

BUILD="${REPRISE_GPU_CHECK_BUILD:-build/gpu-check}"
DEPS=.gpu-deps
STATE=$BUILD/state
PACKAGES=(libfmt-dev libfmt9 nlohmann-json3-dev libpcre2-dev libpcre2-8-0 libutf8proc-dev
          libutf8proc2 libxxhash-dev libxxhash0 libssl-dev libssl3 libgtest-dev libgmock-dev)

# name | seconds at most | what it proves
SECTIONS=(
  "build|170|the plug-in, the tests and the benchmark build with the compilers of this machine"
  "conformance|20|the device passes every case of the device conformance suite on the GPU"
  "replay|70|replay equals eager bit for bit: 5 modes x 4 levels x 4 mixes x 18 sizes; 1,000 replays with changing lengths and block tables take no memory; logits equal the CPU's; the same after sleep"
  "sanitizer|50|compute-sanitizer's memcheck, racecheck, initcheck and synccheck find nothing in kernels and captures"
  "parts|25|decode attention against the bandwidth of a kernel that only reads (batch 1 at 32k, batch 32 at 4k); attention of a prompt; the peak of large products; time of an update"
  "bench-0.5b|35|tokens/s, host time per step, capture time and share of bandwidth by mode, with programmatic dependent launch and without, 0.5B shape"
  "bench-1b|35|the same, 1B shape"
  "bench-8b|100|the same, 8B shape, and 4,096 tokens of prefill against the peak of large products"
  "serving|55|100 requests of ~230 in and ~215 out, 20 a second, on the engine (no server is built here): PIECEWISE, FULL, FULL_AND_PIECEWISE, 1B shape"
  "transformers|40|decoding against transformers with a static cache and torch.compile(mode=reduce-overhead); says 'skipped' where there is no torch"
)

say() { printf '%s\n' "$*" >&2; }
field() { cut -d'|' -f"$2" <<<"$1"; }

command_of() {
  case "$1" in
    build) echo "build" ;;
    conformance) echo "$BUILD/bin/cuda_device_conformance_test --gtest_filter=*/cuda" ;;
    replay) echo "$BUILD/bin/cuda_engine_test && $BUILD/bin/cuda_sleep_test" ;;
    sanitizer) echo "sanitize" ;;
    parts | serving) echo "$BUILD/bin/cuda_benchmark $1 $STATE/$1.json" ;;
    transformers) echo "python3 benchmarks/compare_transformers_cuda.py $BUILD/bin/cuda_benchmark $STATE/$1.json --seconds 20" ;;
    bench-*) echo "$BUILD/bin/cuda_benchmark ${1#bench-} $STATE/$1.json" ;;
  esac
}

configure() {
  local prefix=()
  if [[ -d $DEPS ]]; then
    prefix=(-DCMAKE_PREFIX_PATH="$PWD/$DEPS/usr" "-DCMAKE_LIBRARY_ARCHITECTURE=$(ls $DEPS/usr/lib | grep -m1 linux-gnu)")
    export PKG_CONFIG_PATH="$(echo "$PWD"/$DEPS/usr/lib/*/pkgconfig):$PWD/$DEPS/usr/share/pkgconfig"
    export PKG_CONFIG_SYSROOT_DIR="$PWD/$DEPS"
  fi
  # Neither server nor command line: their libraries are large, and nothing here needs them.
  cmake -S . -B "$BUILD" -G Ninja -DCMAKE_BUILD_TYPE=Release -DREPRISE_CUDA=ON -DREPRISE_WERROR=OFF \
    -DREPRISE_BUILD_EXAMPLES=OFF "-DREPRISE_CUDA_ARCHITECTURES=${GPU_CHECK_ARCHITECTURES:-80;90a}" \
    "-DREPRISE_FOLDERS=base;device;tensor;cudagraph;config;kernels;kv_cache;weights;tokenizer;chat_template;attention;sampling;structured_output;models;program;compile;scheduler;runner;engine;api" \
    "${prefix[@]}" || return 1
  # A folder that another one needs and that is not built would be looked for on the machine.
  if grep -q -- '-lreprise_' "$BUILD/build.ninja"; then
    say "gpu_check: missing in REPRISE_FOLDERS: $(grep -o -- '-lreprise_[a-z_]*' "$BUILD/build.ninja" | sort -u | tr '\n' ' ')"
    return 1
  fi
}

build() {
  configure &&
    ninja -C "$BUILD" cuda_device_conformance_test cuda_engine_test cuda_sleep_test cuda_benchmark reprise_cuda
}

sanitize() {
  local tool failed=0
  for tool in memcheck racecheck initcheck synccheck; do
    say "-- $tool"
    timeout 15 compute-sanitizer --tool "$tool" --error-exitcode 9 \
      "$BUILD/bin/cuda_engine_test" \
      --gtest_filter='CudaEngine.computes_what_the_cpu_computes' || failed=1
  done
  return $failed
}

prepare() {
  local folder
  folder="$(mktemp -d)"
  rm -rf "$DEPS"
  mkdir -p "$DEPS"
  (cd "$folder" && apt-get download "${PACKAGES[@]}") || return 1
  for package in "$folder"/*.deb; do dpkg -x "$package" "$DEPS"; done
  rm -rf "$folder" "$DEPS"/usr/share/{doc,man,lintian,bug} "$DEPS"/usr/bin \
    "$DEPS"/usr/lib/*/libpcre2-{16,32,posix}*
  du -sh "$DEPS"
}

dry_run() {
  local section name
  for section in "${SECTIONS[@]}"; do
    name="$(field "$section" 1)"
    printf '%-12s at most %3s s  %s\n' "$name" "$(field "$section" 2)" "$(field "$section" 3)"
    printf '%-12s   runs: %s\n' "" "$(command_of "$name")"
  done
}

run_section() {
  local section="$1" name limit command start status
  name="$(field "$section" 1)"
  limit="$(field "$section" 2)"
  command="$(command_of "$name")"
  start=$SECONDS
  say "== $name (at most $limit s)"
  export -f configure build sanitize say
  export BUILD DEPS STATE
  # shellcheck disable=SC2086
  timeout "$limit" bash -c "set -uo pipefail; $command" >"$STATE/$name.log" 2>&1
  status=$?
  tail -n 3 "$STATE/$name.log" >&2
  printf '{"section": "%s", "status": %d, "seconds": %d}\n' "$name" "$status" $((SECONDS - start)) \
    >"$STATE/$name.status"
  return $status
}

only=""
case "${1:-}" in
  --dry-run) dry_run; exit 0 ;;
  --prepare) prepare; exit ;;
  --configure) configure; exit ;;
  --only) only="${2:?--only needs the name of a section}" ;;
  "") ;;
  *) say "usage: scripts/gpu_check.sh [--dry-run | --prepare | --configure | --only SECTION]"; exit 2 ;;
esac

command -v nvcc >/dev/null || export PATH="${CUDA_PATH:+$CUDA_PATH/bin:}$PATH"
if ! command -v nvcc >/dev/null; then
  say "gpu_check: no nvcc: put it into the PATH, or set CUDA_PATH to the toolkit"
  exit 2
fi
if ! command -v nvidia-smi >/dev/null && [[ ! -e /dev/nvidia0 ]]; then
  say "gpu_check: no NVIDIA driver here; --dry-run says what would be proved with one"
  exit 2
fi
[[ -d $DEPS ]] && export LD_LIBRARY_PATH="$(echo "$PWD"/$DEPS/usr/lib/*linux-gnu):${LD_LIBRARY_PATH:-}"
mkdir -p "$STATE"
commit="$(git rev-parse HEAD 2>/dev/null || echo unknown)"
if [[ "$(cat "$STATE/commit" 2>/dev/null)" != "$commit" ]]; then
  rm -f "$STATE"/*.status "$STATE"/*.json
  echo "$commit" >"$STATE/commit"
fi

failed=0
for section in "${SECTIONS[@]}"; do
  name="$(field "$section" 1)"
  [[ -n $only && $name != "$only" ]] && continue
  if [[ -z $only ]] && grep -q '"status": 0' "$STATE/$name.status" 2>/dev/null; then
    say "== $name passed before"
    continue
  fi
  if ! run_section "$section"; then
    failed=1
    [[ $name == build ]] && { tail -n 40 "$STATE/build.log" >&2; break; }
  fi
done
python3 scripts/gpu_check_report.py "$STATE" benchmarks/results "$commit"
exit $failed
