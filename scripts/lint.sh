#!/usr/bin/env bash
# Checks format and lint of the C++ sources. Exit code 0: nothing to complain about.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/lint.sh [--all] [--fix]

  (none)   clang-format over the whole tree; clang-tidy over sources that it has not seen as they are:
           those of the newest commits, and never more than it can check in about a minute on
           two cores (tools/tidy.py)
  --all    clang-tidy over every source that it has not seen, and every header compiled alone (about
           half an hour on two cores)
  --fix    clang-format writes its changes
TEXT
}

all=false
format=(--dry-run -Werror)
for argument in "$@"; do
  case "$argument" in
    --all) all=true ;;
    --fix) format=(-i) ;;
    -h | --help) usage; exit 0 ;;
    *) echo "scripts/lint.sh: unknown argument '$argument'" >&2; usage >&2; exit 2 ;;
  esac
done

scripts/setup.sh --tests --without-flashinfer
mkdir -p build
tools=build/lint/bin
if ! cmp -s tools/lint-requirements.txt build/lint/installed.txt; then
  echo "Installing clang-format and clang-tidy from PyPI ..."
  python3 -m venv build/lint
  "$tools/python" -m pip install -q --disable-pip-version-check -r tools/lint-requirements.txt
  cp tools/lint-requirements.txt build/lint/installed.txt
fi

# All sources by default, or those of the names on standard input that are sources.
sources() { git ls-files --cached --others --exclude-standard '*.cpp' '*.h' '*.inl' '*.cu' '*.cuh'; }
jobs="$(nproc)"

sources | xargs -r -n 40 -P "$jobs" "$tools/clang-format" "${format[@]}"
echo "clang-format: $(sources | wc -l) files are formatted"

"$tools/python" -B tools/check_tidy_is_active.py "$tools/clang-tidy"

# clang-tidy uses the flags of a build without groups and precompiled headers. CUDA's sources need its compiler, and
# .inl files are parts of other sources.
cmake --preset tidy >build/tidy.log 2>&1 || { cat build/tidy.log; exit 1; }
if $all; then
  python3 -B tests/architecture/headers_compile_alone.py build/tidy --all
  "$tools/python" -B tools/tidy.py "$tools/clang-tidy" build/tidy --jobs "$jobs" --all
else
  "$tools/python" -B tools/tidy.py "$tools/clang-tidy" build/tidy --jobs "$jobs"
fi
