#!/usr/bin/env bash
# Makes packages of the program in build/release/packages: an archive to unpack anywhere, a .deb, and a wheel.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/package.sh

Builds the program and its C library, and packs them with the libraries that they need, manual
pages, completions and a small model into build/release/packages:

  reprise-VERSION-linux-x86_64.tar.gz   to unpack anywhere
  reprise_VERSION_amd64.deb             for apt
  reprise_engine-VERSION-....whl        for pip, with the module for this machine's Python and the
                                        command reprise; left out where the tools of the module
                                        cannot be had

They run on every Linux with glibc 2.34 and the libstdc++ of GCC 12, or newer ones: Debian 12,
Ubuntu 22.04, Fedora 36. They are made on Debian 12.
TEXT
}
for argument in "$@"; do
  case "$argument" in
    -h | --help) usage; exit 0 ;;
    *) echo "scripts/package.sh: unknown argument '$argument'" >&2; usage >&2; exit 2 ;;
  esac
done
source scripts/build.sh
scripts/setup.sh
targets=(reprise reprise_c)
use_python
has_python=false
if [[ ${#cmake_arguments[@]} -gt 0 ]]; then has_python=true targets+=(reprise_python reprise_python_stub); fi
# scripts/test.sh may have configured the build for this machine alone.
cmake_arguments+=(-DREPRISE_FAST_COMPILE_OTHER_CPUS=OFF)
build release "${targets[@]}"

# Copies the licences of everything inside: of the libraries beside the program, and of those that are linked into it or
# whose headers are used.
licences=build/release/licences
rm -rf "$licences" && mkdir -p "$licences"
packages="libfmt-dev nlohmann-json3-dev $(dpkg -S /usr/include/boost/version.hpp | cut -d: -f1)"
if [[ -e build/release/bin/reprise_codegen_llvm.so ]]; then packages+=" llvm-19-dev"; fi
shopt -s nullglob
for library in $(ldd build/release/bin/{reprise,reprise_codegen_llvm.so} | sed -n 's/.* => \([^ ]*\) .*/\1/p' | sort -u); do
  case "${library##*/}" in
    libc.so* | libm.so* | libgcc_s.so* | libstdc++.so*) ;;
    *) packages+=" $(dpkg -S "*/${library##*/}" | head -1 | cut -d: -f1)" ;;
  esac
done
for package in $(tr ' ' '\n' <<<"$packages" | sort -u); do
  cp -L "/usr/share/doc/$package/copyright" "$licences/$package"
done
for archive in build/downloads/xgrammar-*.tar.gz; do
  tar -xOf "$archive" --wildcards '*/LICENSE' --occurrence=1 >"$licences/xgrammar"
done
# FlashInfer and CUTLASS, whose kernels are in the plug-in for GPUs.
if [[ -e build/release/bin/reprise_cuda.so ]]; then
  for unpacked in build/release/third_party/flashinfer-*; do
    cp "$unpacked"/flashinfer_python-*.dist-info/licenses/LICENSE "$licences/flashinfer"
    sed -n '/^ \* Copyright/,/^ \*\*\*/p' "$unpacked/flashinfer/data/cutlass/include/cutlass/cutlass.h" >"$licences/cutlass"
  done
fi

rm -rf build/release/packages
pack() { (cd build/release && cpack "$@") >build/release/cpack.log 2>&1 || { cat build/release/cpack.log; exit 1; }; }
pack -G TGZ -D CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY=ON
pack -G DEB
rm -rf build/release/packages/_CPack_Packages
if $has_python; then
  build/venv/bin/python -B tools/make_wheel.py build/release build/release/packages >/dev/null
fi

ls -l build/release/packages | awk 'NR > 1 {printf "%6.1f MB  build/release/packages/%s\n", $5 / 1e6, $9}'
