#!/usr/bin/env python3
"""The fuzz targets, and the parsers that they call, compile with clang. Other builds use GCC.

    compiles_with_clang.py BUILD_FOLDER CLANG

Sources are read in groups (`-fsyntax-only`), with the flags of BUILD_FOLDER: at most MOST_GROUPS in one run, first those that
changed lately, then others that depend on the number of commits. A source that compiled is not read again while it and what it
includes stay as they are. Exit code 77 without clang. Uses only Python's standard library.
"""

import hashlib
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "architecture"))

import compiled_sources  # noqa: E402
import recent_changes  # noqa: E402
import source_tree  # noqa: E402

# The folders that CMakeLists.txt lists as DEPS, and the reading of HTTP requests.
PARSERS = re.compile(r"^src/reprise/(base|chat_template|compile/cache|structured_output|tokenizer|weights)/(?!.*_(test|benchmark)\.cpp)"
                     r"|^src/reprise/server/http/(allowed_hosts|api_error|cors|http_head|request_query)\.cpp")
TARGETS = re.compile(r"^tests/fuzz/(?!corpus_test)")
# The definitions that CMakeLists.txt gives to libfuzzer_main.cpp, which only builds with REPRISE_BUILD_FUZZERS contain.
MAIN = ("-DREPRISE_FUZZ_TARGET=json", "-DREPRISE_FUZZ_MICROSECONDS_PER_BYTE=20")

# A group takes clang about six seconds of one core.
MOST_GROUPS = 6


def groups_of_run(unseen, flags):
    groups = compiled_sources.groups_of_newest(unseen, flags, MOST_GROUPS)
    newest = {source for group in groups for source in group}
    others = compiled_sources.groups_of_all([source for source in unseen if source not in newest], flags)
    start = recent_changes.number_of_commits() * MOST_GROUPS % max(len(others), 1)
    return groups + (others[start:] + others[:start])[:MOST_GROUPS - len(groups)]


def version_of(clang):
    try:
        return subprocess.run([clang, "-dumpversion"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def main(build, clang):
    version = version_of(clang)
    if version is None:
        print("clang++ is not here, so this build does not know whether the fuzz targets compile with it")
        return 77
    old = ["-include", str(ROOT / "tests/fuzz/source_location_of_old_clang.h")] if int(version.split(".")[0]) < 15 else []
    commands = compiled_sources.commands(build)
    flags = {source: compiled_sources.flags_of(command, ("-W", "-O", "-m", "-fsanitize"))
             for source, command in commands.items() if TARGETS.search(source) or PARSERS.search(source)}
    flags["tests/fuzz/libfuzzer_main.cpp"] = (*flags["tests/fuzz/json_target.cpp"], *MAIN)
    seen = build / "compiles_with_clang"
    seen.mkdir(exist_ok=True)
    stamps = {source: seen / hashlib.sha256(repr((version, flags[source], source_tree.closure(source))).encode()).hexdigest()
              for source in flags}
    unseen = [source for source in sorted(flags) if not stamps[source].exists()]
    groups = groups_of_run(unseen, flags)

    def complaint(group):
        done = subprocess.run([clang, "-fsyntax-only", "-w", *old, *flags[group[0]], "-x", "c++", "-"],
                              input=compiled_sources.group_text(group), capture_output=True, text=True, check=False)
        if done.returncode == 0:
            for source in group:
                stamps[source].touch()
        return done.stderr[:5000]

    with ThreadPoolExecutor(max_workers=2) as pool:
        complaints = list(pool.map(complaint, groups))
    # A planted error, to show that the check can fail.
    planted = subprocess.run([clang, "-fsyntax-only", "-x", "c++", "-"], input="int x = nothing;", capture_output=True, text=True,
                             check=False)
    if planted.returncode == 0:
        complaints.append("a planted mistake compiled")
    print("".join(complaints) + f"clang {version}: {sum(map(len, groups))} of {len(flags)} sources compiled in {len(groups)} groups")
    return 1 if any(complaints) else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2]))
