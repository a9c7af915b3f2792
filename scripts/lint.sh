#!/usr/bin/env bash
# Checks format and lint of the C++ sources. Exit code 0: nothing to complain about.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/lint.sh [--all] [--fix]

  (none)   clang-format over the whole tree; clang-tidy over the files that differ from the commit
           named in tools/lint_baseline
  --all    clang-tidy over the whole tree, and every header compiled alone (about an hour on two cores)
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

scripts/setup.sh --tests
mkdir -p build
tools=build/lint/bin
if ! cmp -s tools/lint-requirements.txt build/lint/installed.txt; then
  echo "Installing clang-format and clang-tidy from PyPI ..."
  python3 -m venv build/lint
  "$tools/python" -m pip install -q --disable-pip-version-check -r tools/lint-requirements.txt
  cp tools/lint-requirements.txt build/lint/installed.txt
fi

# Of all sources by default, or of those among the names that come on standard input.
sources() { git ls-files --cached --others --exclude-standard '*.cpp' '*.h' '*.inl' '*.cu' '*.cuh'; }
jobs="$(nproc)"

sources | xargs -r -n 40 -P "$jobs" "$tools/clang-format" "${format[@]}"
echo "clang-format: $(sources | wc -l) files are formatted"

"$tools/python" -B tools/check_tidy_is_active.py "$tools/clang-tidy"

# Each file by itself, with the flags of a build without groups and precompiled headers. CUDA's sources need
# its compiler, and .inl files are parts of others.
cmake --preset tidy >build/tidy.log 2>&1 || { cat build/tidy.log; exit 1; }
baseline="$(cat tools/lint_baseline)"
compiled() { "$tools/python" -c '
import json, os, sys
for entry in json.load(open("build/tidy/compile_commands.json")):
    print(os.path.relpath(entry["file"]))' | sort -u; }
changed() {
  git diff --name-only --diff-filter=d "$baseline"
  git ls-files --others --exclude-standard
}
if $all; then
  chosen() { compiled; }
  python3 -B tests/architecture/headers_compile_alone.py build/tidy --all
elif git cat-file -e "$baseline^{commit}" 2>/dev/null; then
  chosen() { comm -12 <(compiled) <(changed | sort -u); }
else
  echo "This clone does not know the commit of tools/lint_baseline ($baseline): clang-tidy is left out; try --all"
  chosen() { :; }
fi
count="$(chosen | wc -l)"
if [[ "$count" -gt 0 ]]; then
  chosen | xargs -n 1 -P "$jobs" "$tools/clang-tidy" -p build/tidy --quiet
fi
echo "clang-tidy: $count files without complaint"
