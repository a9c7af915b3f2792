#!/usr/bin/env bash
# Builds the kernels for aarch64 with a cross compiler and runs their tests under QEMU.
# usage: scripts/test_aarch64.sh [gtest filter]      default: all but the tiles of AMX in software, which take hours
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for program in aarch64-linux-gnu-g++ qemu-aarch64; do
  if ! command -v "$program" >/dev/null; then
    echo "scripts/test_aarch64.sh: $program is missing; apt-get install g++-aarch64-linux-gnu qemu-user" >&2
    exit 1
  fi
done
for source in /usr/src/googletest/CMakeLists.txt /usr/include/fmt/core.h /usr/include/nlohmann/json.hpp; do
  if [[ ! -f "$source" ]]; then
    echo "scripts/test_aarch64.sh: $source is missing; run scripts/setup.sh" >&2
    exit 1
  fi
done

cmake -S . -B build/aarch64 -G Ninja --toolchain "$PWD/cmake/aarch64/toolchain.cmake" \
  -DCMAKE_BUILD_TYPE=Release -DREPRISE_FOLDERS="base;parallel;device;tensor;kernels" -DREPRISE_PCH=OFF \
  -DREPRISE_BUILD_BENCHMARKS=OFF -DREPRISE_BUILD_EXAMPLES=OFF -DREPRISE_INSTALL=OFF -DREPRISE_MPI=OFF \
  -DREPRISE_CUDA=OFF >/dev/null
cmake --build build/aarch64 --target kernels_test
qemu-aarch64 -L /usr/aarch64-linux-gnu build/aarch64/bin/kernels_test --gtest_brief=1 --gtest_filter="${1:-*:-*amx_software*}"
