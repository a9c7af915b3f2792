#!/usr/bin/env bash
# Installs what building and testing need and this machine lacks, from Debian's packages.
# Says what and why before it does; does nothing, and asks for no rights, when all is there.
#
#   scripts/setup.sh           install what is missing
#   scripts/setup.sh --check   only say what is missing; exit code 1 if something is
#   scripts/setup.sh --tests   also what some tests are skipped without
#   scripts/setup.sh --without-flashinfer   does not download FlashInfer's kernels for GPUs (62 MB, where nvcc is)
set -euo pipefail

# package | what must be there | why.
needs=(
  "g++|tool g++ clang++|C++20 compiler"
  "cmake|cmake 3.25|build system, 3.25 or newer"
  "ninja-build|tool ninja|runs the build"
  "pkg-config|tool pkg-config|finds libraries"
  "libfmt-dev|header fmt/format.h|text formatting"
  "nlohmann-json3-dev|header nlohmann/json.hpp|reads configurations"
  "libpcre2-dev|header pcre2.h|pre-tokenizer patterns"
  "libutf8proc-dev|header utf8proc.h|Unicode normal forms of tokenizers"
  "libxxhash-dev|header xxhash.h|hash tables of tokenizers"
  "libboost-dev|boost 1.81|HTTP of the server (headers only), 1.81 or newer"
  "libyaml-cpp-dev|header yaml-cpp/yaml.h|reads --config files"
  "libssl-dev|header openssl/ssl.h|TLS of the server, SHA-256 of cached blocks"
  "libgtest-dev|header gtest/gtest.h|tests"
  "libgmock-dev|header gmock/gmock.h|tests"
  "openssl|tool openssl|certificates for tests"
  "python3|tool python3|tests of the source tree itself"
)

# The same for what the build can do without. Where it cannot be had, that is said and nothing fails.
wants=(
  "python3-pip|tool pip3|downloads the source of xgrammar, for structured outputs"
  "libopenmpi-dev|tool mpicxx|several ranks of one model (--tensor-parallel-size); without it there is one"
  "openmpi-bin|tool mpirun|starts several ranks"
  "libzmq5|library libzmq.so.5|events for routers (--kv-events-config); without it that option is refused"
  "llvm-19-dev|header llvm-19/llvm/IR/IRBuilder.h|generates code for groups of ops; without it they run one by one"
)
without_flashinfer=false
if [[ " $* " == *" --without-flashinfer "* ]]; then without_flashinfer=true; fi
if [[ " $* " == *" --tests "* ]]; then
  wants+=(
    "chromium|tool chromium chromium-browser google-chrome|tests of the chat page; without it they are skipped"
    "prometheus|tool promtool|a test of the metrics; without it one check is skipped"
    "python3-numpy|python_module numpy|makes random weights; without it some tests of benchmarks are skipped"
    "python3-jsonschema|python_module jsonschema|checks answers that had to fit a schema"
    "python3-dev|python_headers|the Python package"
    "clang|tool clang++|a test that the fuzz targets compile with it"
    "python3-venv|python_module ensurepip|tools that test the Python package"
  )
fi

have_tool() {
  local name
  for name in "$@"; do
    command -v "$name" >/dev/null 2>&1 && return 0
  done
  return 1
}

# have_cmake VERSION: this version or a newer one.
have_cmake() {
  local found
  found="$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')"
  [[ -n "$found" ]] && is_at_least "$found" "$1"
}

is_at_least() { [[ "$(printf '%s\n' "$1" "$2" | sort -V | head -1)" == "$2" ]]; }

have_library() {
  PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null | grep -qF "$1"
}

have_python_module() {
  python3 -c "import $1" >/dev/null 2>&1
}
have_python_headers() {
  [[ -e "$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null)/Python.h" ]]
}

# Archives that the build unpacks; pinned by their hashes in cmake/.
downloads="build/downloads"
fetch_sources() {
  fetch_xgrammar
  if ! $without_flashinfer && have_new_nvcc; then fetch_flashinfer; fi
}

fetch_xgrammar() {
  local pin archive
  pin="$(sed -n 's/^\(xgrammar\)==\([0-9.]*\) .*/\1-\2.tar.gz/p' cmake/xgrammar.txt)"
  archive="$downloads/$pin"
  [[ -f "$archive" ]] && return 0
  echo "Downloading the source of ${pin%.tar.gz}, for structured outputs ..."
  mkdir -p "$downloads"
  # Only xgrammar itself as source: pip would also compile the build tools that it needs to read the archive's metadata.
  if ! python3 -m pip download -q --no-deps --no-binary xgrammar --require-hashes -d "$downloads" -r cmake/xgrammar.txt; then
    echo "It could not be downloaded; going on without structured outputs."
  fi
}

# Only a build with a CUDA plug-in reads it.
fetch_flashinfer() {
  local version
  version="$(sed -n 's/^flashinfer-python==\([0-9a-z.]*\) .*/\1/p' cmake/flashinfer.txt)"
  [[ -f "$downloads/flashinfer_python-$version-py3-none-any.whl" ]] && return 0
  echo "Downloading FlashInfer $version, for attention on NVIDIA GPUs ..."
  mkdir -p "$downloads"
  if ! python3 -m pip download -q --no-deps --only-binary :all: --require-hashes -d "$downloads" -r cmake/flashinfer.txt; then
    echo "It could not be downloaded; going on without it: GPUs use Reprise's own attention kernels."
  fi
}

# nvcc of CUDA 13 or newer, where CMake looks for it.
have_new_nvcc() {
  local nvcc version
  for nvcc in "${CUDA_PATH:+$CUDA_PATH/bin/nvcc}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
    [[ -x "$nvcc" ]] || continue
    version="$("$nvcc" --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')"
    (( ${version:-0} >= 13 ))
    return
  done
  return 1
}

# Finds the path of a header in the folders that compilers are told about (CPATH and others), and in those in which
# compilers look by themselves.
find_header() {
  local folder folders
  IFS=: read -r -a folders <<<"${CMAKE_PREFIX_PATH:+${CMAKE_PREFIX_PATH//:/\/include:}/include}:${CPATH:-}:${CPLUS_INCLUDE_PATH:-}:/usr/local/include:/usr/include"
  for folder in "${folders[@]}" /usr/include/*-linux-gnu*; do
    if [[ -n "$folder" && -e "$folder/$1" ]]; then
      echo "$folder/$1"
      return 0
    fi
  done
  return 1
}
have_header() { find_header "$1" >/dev/null; }

# have_boost VERSION: the headers of this version or a newer one. 1.81.0 is written as 108100.
have_boost() {
  local header number
  header="$(find_header boost/version.hpp)" && have_header boost/beast/http.hpp || return 1
  number="$(sed -n 's/^#define BOOST_VERSION \([0-9]*\).*/\1/p' "$header")"
  (( ${number:-0} >= ${1%.*} * 100000 + ${1#*.} * 100 ))
}

# Whether a line of a table names something that is missing; sets package and reason.
is_missing() {
  local probe kind things
  IFS='|' read -r package probe reason <<<"$1"
  read -r kind things <<<"$probe"
  # shellcheck disable=SC2086  # several tools are several words
  ! "have_$kind" $things
}

missing=()
wanted=()
report=""
for need in "${needs[@]}"; do
  if is_missing "$need"; then
    missing+=("$package")
    report+="$(printf '  %-20s %s' "$package" "$reason")"$'\n'
  fi
done
for want in "${wants[@]}"; do
  if is_missing "$want"; then
    wanted+=("$package")
    report+="$(printf '  %-20s optional: %s' "$package" "$reason")"$'\n'
  fi
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ -z "$report" ]]; then
  [[ "${1:-}" == "--check" ]] || fetch_sources
  exit 0
fi

printf 'Missing on this machine:\n%s' "$report"
if [[ "${1:-}" == "--check" ]]; then
  [[ ${#missing[@]} -eq 0 ]] && exit 0
  exit 1
fi
# With only optional things missing nothing has to be installed, so nothing fails.
give_up() {
  [[ ${#missing[@]} -eq 0 ]] && exit 0
  exit 1
}

if ! command -v apt-get >/dev/null 2>&1; then
  echo "This script installs with apt-get, which is not here. The names above are Debian's; please" >&2
  echo "install the same things with this system's package manager and run the command again." >&2
  give_up
fi
if [[ "$(id -u)" -eq 0 ]]; then
  as_root=(env)
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
  as_root=(sudo -n env)
elif [[ ${#missing[@]} -gt 0 && -t 0 ]] && command -v sudo >/dev/null 2>&1; then
  echo "Installing needs root rights; sudo may ask for your password."
  as_root=(sudo env)
else
  echo "Installing needs root rights, and neither root nor a usable sudo is here. Please have someone run:" >&2
  echo "  apt-get install --no-install-recommends ${missing[*]} ${wanted[*]}" >&2
  give_up
fi

apt_get() {
  "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -y -qq \
    -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

log="$(mktemp)"
trap 'rm -f "$log"' EXIT
try() { apt_get "$@" >"$log" 2>&1; }

# Package lists are empty on a fresh container and old on a neglected machine, so the first try installs without
# updating them.
install() {
  try install --no-install-recommends "$@" && return 0
  echo "Refreshing the package lists ..."
  try update && try install --no-install-recommends "$@"
}

# Debian 12 has the newer Boost under a name of its own; later systems have only the plain name.
name_boost() {
  local i version
  for i in "${!missing[@]}"; do
    [[ "${missing[$i]}" == libboost-dev ]] || continue
    version="$(boost_version)"
    if [[ -z "$version" ]]; then
      echo "Refreshing the package lists ..."
      try update || true
      version="$(boost_version)"
    fi
    is_at_least "${version:-1.81}" 1.81 || missing[i]=libboost1.81-dev
  done
}
boost_version() { apt-cache show libboost-dev 2>/dev/null | sed -n 's/^Version: \([0-9.]*\).*/\1/p' | sort -V | tail -1; }

if [[ ${#missing[@]} -gt 0 ]]; then
  echo "Installing ${#missing[@]} of Debian's packages ..."
  name_boost
  if ! install "${missing[@]}"; then
    cat "$log" >&2
    echo "apt-get could not install the packages; its own words are above." >&2
    exit 1
  fi
  echo "Installed: ${missing[*]}"
  old=""
  for need in "${needs[@]}"; do
    if is_missing "$need"; then
      old+="$(printf '  %-20s %s' "$package" "$reason")"$'\n'
    fi
  done
  if [[ -n "$old" ]]; then
    printf "This system's packages are too old. Still missing:\n%s" "$old" >&2
    if [[ "$old" == *"  cmake "* ]]; then
      echo "A newer cmake: python3 -m pip install cmake, in the PATH before the old one." >&2
    fi
    exit 1
  fi
fi
if [[ ${#wanted[@]} -gt 0 ]]; then
  echo "Installing what is optional ..."
  if install "${wanted[@]}"; then
    echo "Installed: ${wanted[*]}"
  else
    echo "This system does not offer ${wanted[*]}; going on without."
  fi
fi
fetch_sources
