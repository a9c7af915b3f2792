#!/usr/bin/env bash
# Tries the packages of scripts/package.sh on bare systems: unpacks or installs them, generates, serves and fetches.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/test_packages.sh [SUITE ...]

Makes a root folder for each system with debootstrap (in build/roots, 150 MB each), with nothing but
what a package manager needs, and uses the archive and the .deb of build/release/packages in it, and
the wheel where the system's Python is the wheel's.
Needs root rights and a network.

  SUITE   bookworm (Debian 12), trixie (Debian 13), jammy (Ubuntu 22.04), noble (Ubuntu 24.04);
          without one: all four. A system that cannot be fetched is named and left out.
TEXT
}
suites=()
for argument in "$@"; do
  case "$argument" in
    -h | --help) usage; exit 0 ;;
    -*) echo "scripts/test_packages.sh: unknown argument '$argument'" >&2; usage >&2; exit 2 ;;
    *) suites+=("$argument") ;;
  esac
done
[[ ${#suites[@]} -gt 0 ]] || suites=(bookworm trixie jammy noble)
packages=build/release/packages
archive="$(ls $packages/reprise-*-linux-*.tar.gz)"
deb="$(ls $packages/reprise_*.deb)"
wheel="$(ls $packages/reprise_engine-*.whl 2>/dev/null || true)"
for tool in debootstrap chroot unshare; do
  command -v "$tool" >/dev/null || { echo "scripts/test_packages.sh needs $tool; install it" >&2; exit 2; }
done

# Runs inside a root: PROGRAM MODEL. The client is bash itself, because a bare system has no other client.
read -r -d '' trial <<'TRIAL' || true
set -euo pipefail
program="$1" model="$2"
export HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin
"$program" --version | head -1
start=$(date +%s%N)
text="$("$program" generate "$model" --prompt "Once upon a time" --max-tokens 24 2>/dev/null)"
echo "first text after $(( ($(date +%s%N) - start) / 1000000 )) ms: ${text:0:60}"
[[ "$text" == "Once upon a time"* ]]
# Generates code, for which the plug-in with LLVM is loaded.
"$program" generate "$model" --prompt "Once upon a time" --max-tokens 4 --compilation-config.backend inductor --disable-compile-cache >/dev/null 2>/tmp/log ||
  { cat /tmp/log; exit 1; }
"$program" collect-env | grep -i "code generation"
"$program" serve "$model" --port 8123 >/tmp/log 2>&1 &
server=$!
get() {
  exec 3<>/dev/tcp/127.0.0.1/8123 || return 1
  printf 'GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n' "$1" >&3
  cat <&3
  exec 3>&-
}
for _ in $(seq 100); do (get /health >/dev/null) 2>/dev/null && break; sleep 0.2; done
get /health | sed -n 1p | grep " 200"
get / | grep -io "<title>.*</title>"
body='{"prompt": "Once", "max_tokens": 8}'
exec 3<>/dev/tcp/127.0.0.1/8123
printf 'POST /v1/completions HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' "${#body}" "$body" >&3
cat <&3 | grep -o '"text": *"[^"]*"'
kill -TERM $server
wait $server
TRIAL

# The wheel, installed by pip without an index into an environment of its own. Its one dependency, tqdm, comes from the system.
read -r -d '' wheel_trial <<'TRIAL' || true
set -euo pipefail
export HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin
rm -rf /opt/venv && python3 -m venv --system-site-packages /opt/venv
/opt/venv/bin/pip -q install --no-index "$1"
folder="$(/opt/venv/bin/python -c 'import reprise; print(reprise.__path__[0])')"
/opt/venv/bin/python -c "
import sys
from reprise import LLM, SamplingParams
print('module:', LLM(sys.argv[1]).generate(['Once upon a time'], SamplingParams(max_tokens=8), use_tqdm=False)[0].outputs[0].text)
" "$folder/share/reprise/models/reprise-tiny" 2>/dev/null
echo "$folder" >/tmp/folder
TRIAL

failed=0
for suite in "${suites[@]}"; do
  root="build/roots/$suite"
  if [[ ! -x "$root/bin/bash" ]]; then
    rm -rf "$root"
    mkdir -p build/roots
    if ! debootstrap --variant=minbase "$suite" "$root" >"build/roots/$suite.log" 2>&1; then
      echo "$suite: left out, because it could not be fetched (build/roots/$suite.log)"
      rm -rf "$root"
      continue
    fi
  fi
  echo "$suite: $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' "$root/etc/os-release"), $(chroot "$root" ldd --version | head -1)"
  rm -rf "$root/opt/"* && tar -xzf "$archive" -C "$root/opt"
  folder="$(cd "$root" && ls -d opt/reprise-*)"
  cp "$deb" "$root/tmp/"
  # Runs in a network namespace of its own, so that the port is free, and in a process namespace, so that all processes
  # end with it.
  inside() { unshare --net --pid --fork --mount bash -c 'mount -t proc proc "$1/proc"; mount -t tmpfs tmpfs "$1/dev/shm" 2>/dev/null || true; ip link set lo up; exec chroot "$@"' -- "$root" "$@"; }
  if inside /bin/bash -c "$trial" -- "/$folder/bin/reprise" "/$folder/share/reprise/models/reprise-tiny" &&
    inside dpkg -i "/tmp/${deb##*/}" >"build/roots/$suite.log" 2>&1 &&
    inside /bin/bash -c "$trial" -- /usr/bin/reprise /usr/share/reprise/models/reprise-tiny &&
    inside dpkg -r reprise >>"build/roots/$suite.log" 2>&1 && [[ ! -e "$root/usr/lib/reprise" ]]; then
    echo "$suite: the archive and the .deb work"
    number="$(sed -n 's/.*-cp3\([0-9]*\)-cp3.*/\1/p' <<<"$wheel")"
    if [[ -n "$wheel" ]] && chroot "$root" apt-cache show "python3.$number" >/dev/null 2>&1; then
      # python3-venv has pip inside.
      if (chroot "$root" apt-get update -qq && chroot "$root" apt-get install -y -qq python3-venv python3-tqdm) >"build/roots/$suite.log" 2>&1 &&
        cp "$wheel" "$root/tmp/" && inside /bin/bash -c "$wheel_trial" -- "/tmp/${wheel##*/}" &&
        inside /bin/bash -c "$trial" -- /opt/venv/bin/reprise "$(cat "$root/tmp/folder")/share/reprise/models/reprise-tiny"; then
        echo "$suite: the wheel works"
      else
        echo "$suite: the wheel FAILED (build/roots/$suite.log)"
        failed=1
      fi
    fi
  else
    echo "$suite: FAILED (build/roots/$suite.log)"
    failed=1
  fi
done
exit $failed
