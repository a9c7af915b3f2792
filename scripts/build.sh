# shellcheck shell=bash
# Sourced by quickstart.sh and test.sh, which run in the repository's root.
# build PRESET [TARGET ...]: configures once, then builds what has changed.

# Two checkouts of the same source share what ccache has compiled.
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1

# One compile job may take over a gigabyte; a small machine runs fewer of them than it has cores.
num_jobs() {
  local cores memory_kb jobs
  cores="$(nproc 2>/dev/null || echo 2)"
  memory_kb="$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null || true)"
  jobs=$(( ${memory_kb:-4000000} / 1200000 ))
  (( jobs > cores )) && jobs=$cores
  (( jobs < 1 )) && jobs=1
  echo "$jobs"
}

# Without a terminal: a line per tenth of the build, and everything that is not progress.
every_tenth() {
  awk '
    match($0, /^\[[0-9]+\/[0-9]+\]/) {
      split(substr($0, 2, RLENGTH - 2), part, "/")
      tenth = int(10 * part[1] / part[2])
      if (tenth != last) { last = tenth; print "  " part[1] " of " part[2]; fflush() }
      next
    }
    /^ninja: (Entering|no work)/ || /^-- / { next }
    { print; fflush() }'
}

build() {
  local preset="$1"
  shift
  # Ninja itself configures again when a CMake file has changed.
  if [[ ! -f "build/$preset/build.ninja" ]]; then
    local log
    log="$(mktemp)"
    if ! cmake --preset "$preset" >"$log" 2>&1; then
      cat "$log" >&2
      rm -f "$log"
      return 1
    fi
    rm -f "$log"
  fi
  local command=(ninja -C "build/$preset" -j "$(num_jobs)" "$@")
  if [[ -t 1 ]]; then
    NINJA_STATUS='[%f/%t] ' "${command[@]}"
  else
    NINJA_STATUS='[%f/%t] ' "${command[@]}" 2>&1 | every_tenth
  fi
}
