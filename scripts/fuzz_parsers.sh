#!/usr/bin/env bash
# Fuzzes the parsers of bytes from outside (tests/fuzz/targets.h) under AddressSanitizer and UndefinedBehaviorSanitizer.
# An input that crashes a parser, breaks one of its promises or costs too much for its size ends the run and is
# kept in build/fuzz/found/TARGET. Inputs that reach new code go to build/fuzz/corpus/TARGET, and --merge
# adds those that reach the most of it to tests/fuzz/corpus, which ctest `parsers` runs.
#
#   scripts/fuzz_parsers.sh [--merge] RUNS [TARGET...]      for example: scripts/fuzz_parsers.sh 1000000 http json
#
# Needs clang with its sanitizers (Debian: clang). Numbers add up in build/fuzz/runs.txt.
set -euo pipefail
cd "$(dirname "$0")/.."

merge=no
if [[ "${1:-}" == --merge ]]; then
  merge=yes
  shift
fi
runs="${1:?number of inputs for each target}"
shift
targets=("$@")
if [[ ${#targets[@]} -eq 0 ]]; then
  mapfile -t targets < <(sed -n 's/^reprise_fuzz_target(\([a-z_]*\) .*/\1/p' tests/fuzz/CMakeLists.txt)
fi

# Built without xgrammar: of schemas and patterns, only the part before xgrammar is fuzzed, up to the grammar that it
# would read.
compiler="${CXX:-clang++}"
flags=()
if [[ "$("$compiler" -dumpversion | cut -d. -f1)" -lt 15 ]]; then
  flags=(-DCMAKE_CXX_FLAGS="-include $PWD/tests/fuzz/source_location_of_old_clang.h")
fi
CXX="$compiler" cmake -G Ninja -S . -B build/fuzz -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -gline-tables-only -DNDEBUG" -DREPRISE_BUILD_FUZZERS=ON \
  -DREPRISE_SANITIZE=fuzzer-no-link,address,undefined -DREPRISE_BUILD_BENCHMARKS=OFF -DREPRISE_BUILD_EXAMPLES=OFF \
  -DREPRISE_WERROR=OFF -DREPRISE_PCH=OFF -DREPRISE_DOWNLOADS="$PWD/build/fuzz/no_downloads" "${flags[@]}" >build/fuzz.log
ninja -C build/fuzz "${targets[@]/%/_fuzz}"

for target in "${targets[@]}"; do
  mkdir -p "build/fuzz/corpus/$target" "build/fuzz/found/$target"
  # Inputs are short: few bytes are enough to show a parser's mistakes, and a run tries more inputs.
  build/fuzz/bin/"${target}_fuzz" -runs="$runs" -max_len=1024 -timeout=20 -rss_limit_mb=1024 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/found/$target/" "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target" \
    >"build/fuzz/$target.log" 2>&1 || { tail -40 "build/fuzz/$target.log"; exit 1; }
  sed -n "s/^stat::number_of_executed_units: */$target /p" "build/fuzz/$target.log" | tee -a build/fuzz/runs.txt
  if [[ "$merge" == yes ]]; then
    before="$(mktemp -d)"
    control="build/fuzz/$target.control"
    cp "tests/fuzz/corpus/$target"/* "$before"
    rm -f "$control"
    build/fuzz/bin/"${target}_fuzz" -merge=1 -max_len=400 -merge_control_file="$control" "$before" "build/fuzz/corpus/$target" \
      >"build/fuzz/$target.merge.log" 2>&1
    python3 scripts/choose_fuzz_corpus.py "$control" "tests/fuzz/corpus/$target"
    rm -r "$before"
  fi
done
awk '{ sum[$1] += $2 } END { for (name in sum) print "together", name, sum[name] }' build/fuzz/runs.txt
