#!/usr/bin/env bash
# Installs what building and testing need and this machine lacks, from Debian's packages.
# Says what and why before it does; does nothing, and asks for no rights, when all is there.
#
#   scripts/setup.sh           install what is missing
#   scripts/setup.sh --check   only say what is missing; exit code 1 if something is
set -euo pipefail

# package | what must be there | why.
needs=(
  "g++|tool g++ clang++|C++20 compiler"
  "cmake|tool cmake|build system, 3.25 or newer"
  "ninja-build|tool ninja|runs the build"
  "pkg-config|tool pkg-config|finds libraries"
  "libfmt-dev|header fmt/format.h|text formatting"
  "nlohmann-json3-dev|header nlohmann/json.hpp|reads configurations"
  "libpcre2-dev|header pcre2.h|pre-tokenizer patterns"
  "libutf8proc-dev|header utf8proc.h|Unicode normal forms of tokenizers"
  "libxxhash-dev|header xxhash.h|hash tables of tokenizers"
  "libgtest-dev|header gtest/gtest.h|tests"
  "libgmock-dev|header gmock/gmock.h|tests"
  "python3|tool python3|tests of the source tree itself"
)

have_tool() {
  local name
  for name in "$@"; do
    command -v "$name" >/dev/null 2>&1 && return 0
  done
  return 1
}

# Where compilers look, and where people put things that compilers are told about.
have_header() {
  local folder folders
  IFS=: read -r -a folders <<<"/usr/include:/usr/local/include:${CPATH:-}:${CPLUS_INCLUDE_PATH:-}"
  for folder in "${folders[@]}"; do
    [[ -n "$folder" && -e "$folder/$1" ]] && return 0
  done
  for folder in /usr/include/*-linux-gnu*/; do
    [[ -e "$folder$1" ]] && return 0
  done
  IFS=: read -r -a folders <<<"${CMAKE_PREFIX_PATH:-}"
  for folder in "${folders[@]}"; do
    [[ -n "$folder" && -e "$folder/include/$1" ]] && return 0
  done
  return 1
}

missing=()
reasons=()
for need in "${needs[@]}"; do
  IFS='|' read -r package probe reason <<<"$need"
  read -r kind things <<<"$probe"
  # shellcheck disable=SC2086  # several tools are several words
  if ! "have_$kind" $things; then
    missing+=("$package")
    reasons+=("$reason")
  fi
done

if [[ ${#missing[@]} -eq 0 ]]; then
  exit 0
fi

echo "Missing on this machine:"
for i in "${!missing[@]}"; do
  printf '  %-20s %s\n' "${missing[$i]}" "${reasons[$i]}"
done
if [[ "${1:-}" == "--check" ]]; then
  exit 1
fi

if ! command -v apt-get >/dev/null 2>&1; then
  echo "This script installs with apt-get, which is not here. The names above are Debian's; please" >&2
  echo "install the same things with this system's package manager and run the command again." >&2
  exit 1
fi
if [[ "$(id -u)" -eq 0 ]]; then
  as_root=(env)
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
  as_root=(sudo -n env)
elif command -v sudo >/dev/null 2>&1 && [[ -t 0 ]]; then
  echo "Installing needs root rights; sudo may ask for your password."
  as_root=(sudo env)
else
  echo "Installing needs root rights, and neither root nor a usable sudo is here. Please have someone run:" >&2
  echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi

apt_get() {
  "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -y -qq \
    -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

log="$(mktemp)"
trap 'rm -f "$log"' EXIT
try() { apt_get "$@" >"$log" 2>&1; }

echo "Installing ${#missing[@]} of Debian's packages ..."
# Package lists are empty on a fresh container and old on a neglected machine; try without first.
if ! try install --no-install-recommends "${missing[@]}"; then
  echo "Refreshing the package lists ..."
  if ! try update || ! try install --no-install-recommends "${missing[@]}"; then
    cat "$log" >&2
    echo "apt-get could not install the packages; its own words are above." >&2
    exit 1
  fi
fi
echo "Installed: ${missing[*]}"
