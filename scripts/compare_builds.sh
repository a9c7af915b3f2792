#!/usr/bin/env bash
# Builds the program twice, in two folders and at two times, and compares the two files byte by byte. It takes two whole builds.
#
#   scripts/compare_builds.sh [JOBS]
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in first second-with-a-longer-name; do
  git worktree add --quiet --detach "$work/$name" HEAD
  cmake -S "$work/$name" --preset release -DREPRISE_BUILD_PYTHON=OFF >/dev/null
  # Without the cache of compilers, which would give the second build the objects of the first.
  CCACHE_DISABLE=1 ninja -C "$work/$name/build/release" -j "${1:-2}" reprise >/dev/null
  sha256sum "$work/$name/build/release/bin/reprise"
  if grep -c "$work" "$work/$name/build/release/bin/reprise"; then
    echo "the program contains the folder of its build" >&2
  fi
done
cmp "$work"/*/build/release/bin/reprise && echo "both programs are equal"
git worktree prune
