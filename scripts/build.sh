# shellcheck shell=bash
# Sourced by quickstart.sh and test.sh, which run in the repository's root.
# build PRESET [TARGET ...]: configures once, or with what is in cmake_arguments, then builds what has
# changed.
cmake_arguments=()

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
  if [[ ! -f "build/$preset/build.ninja" || ${#cmake_arguments[@]} -gt 0 ]]; then
    local log
    log="$(mktemp)"
    if ! cmake --preset "$preset" "${cmake_arguments[@]}" >"$log" 2>&1; then
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

# Installs into build/venv the packages from PyPI with which the Python package is built and tested, and asks the next
# build for the Python package. If they cannot be installed, prints that: the Python package is optional.
use_python() {
  local python=build/venv/bin/python
  if ! cmp -s python/requirements-test.txt build/venv/installed.txt; then
    if ! { python3 -m venv build/venv && "$python" -m pip install -q --disable-pip-version-check -r python/requirements-test.txt; } \
      >build/venv.log 2>&1; then
      echo "Without the Python package: its tools could not be installed (build/venv.log)."
      return 0
    fi
    cp python/requirements-test.txt build/venv/installed.txt
  fi
  cmake_arguments=(-DREPRISE_BUILD_PYTHON=ON "-DPython_EXECUTABLE=$PWD/$python")
}
