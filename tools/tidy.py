#!/usr/bin/env python3
"""Runs clang-tidy on the sources that it has not yet seen as they are, several sources at a time.

usage: tools/tidy.py CLANG_TIDY BUILD_FOLDER [--all] [--jobs N]

BUILD_FOLDER is a configured build without precompiled headers (preset `tidy`). When clang-tidy has nothing to say about a
source, the folder BUILD_FOLDER/tidy_seen gets a file with a hash as its name. The hash covers the source, every file of
this repository that the source includes, the compiler's flags, .clang-tidy and the version of clang-tidy. A source with
such a file is not checked again.

One run checks at most MAX_GROUPS groups of up to twelve sources of a folder, so that it takes minutes also in a fresh
clone: the sources that differ from the last commit, then those of the newest commits, newest first. A header counts for
one source that includes it. --all checks every source.

A source of its own takes 18 s of processor time, of which nearly all go into the standard library; a group of twelve
takes 20 s. If a group does not compile as one file, it is split. Uses only Python's standard library.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "architecture"))

import compiled_sources  # noqa: E402
import source_tree  # noqa: E402

# The bodies of kernels are left out: their int index arithmetic, vector types and constants of polynomials would cause
# hundreds of warnings.
LEFT_OUT = "src/reprise/kernels/isa/"
MAX_GROUPS = 6  # each group takes about 20 s of processor time: a minute on two cores


def has_its_headers(source, flags):
    """Whether all headers that the source includes exist: some are made by a build, and this folder is only configured."""
    folders = [(ROOT / source).parent] + [Path(flag[2:]) for flag in flags if flag.startswith("-I")]
    included = re.findall(r'^#include "(reprise/[^"]+)"', (ROOT / source).read_text(encoding="utf-8"), re.M)
    return all(any((folder / header).exists() for folder in folders) for header in included)


def includes_kernels(source):
    """Whether the source includes the bodies of kernels, for CUDA or for an instruction set."""
    text = (ROOT / source).read_text(encoding="utf-8")
    return re.search(r'^#include "([^"]+\.cuh|reprise/kernels/(isa/[^"]+|vector/tiles_[^"]+)\.inl)"', text, re.M) is not None


class Seen:
    """Which sources clang-tidy has seen as they are, in a folder."""

    def __init__(self, folder, clang_tidy):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        version = subprocess.run([clang_tidy, "--version"], capture_output=True, text=True, check=True).stdout
        self.base = version + (ROOT / ".clang-tidy").read_text(encoding="utf-8")

    def stamp(self, source, flags):
        key = self.base + repr(flags) + repr(source_tree.closure(source))
        return self.folder / hashlib.sha256(key.encode()).hexdigest()


def complaint(clang_tidy, group, flags, folder):
    """What clang-tidy says about sources with the same flags; empty if nothing."""
    file, extra = ROOT / group[0], []
    if len(group) > 1:
        text = compiled_sources.group_text(group)
        file = folder / (hashlib.sha256(text.encode()).hexdigest()[:16] + ".cpp")
        file.write_text(text, encoding="utf-8")
        extra = ["--checks=-bugprone-suspicious-include"]  # the group itself includes sources
        flags = (*flags, "-Wno-shadow")  # a name that a source shares with the next source of the group is no mistake
    done = subprocess.run([clang_tidy, "--quiet", f"--config-file={ROOT / '.clang-tidy'}", *extra, str(file), "--", *flags],
                          cwd=ROOT, capture_output=True, text=True, check=False)
    if len(group) > 1 and "[clang-diagnostic-error]" in done.stdout:
        half = len(group) // 2
        return complaint(clang_tidy, group[:half], flags, folder) + complaint(clang_tidy, group[half:], flags, folder)
    return done.stdout + done.stderr if done.returncode != 0 else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clang_tidy", type=os.path.abspath)
    parser.add_argument("build", type=lambda path: Path(path).resolve())
    parser.add_argument("--all", action="store_true", help="no limit")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    options = parser.parse_args()
    flags = {source: compiled_sources.flags_of(command) for source, command in compiled_sources.commands(options.build).items()
             if not source.startswith(LEFT_OUT)}
    flags = {source: words for source, words in flags.items() if has_its_headers(source, words) and not includes_kernels(source)}
    seen = Seen(options.build / "tidy_seen", options.clang_tidy)
    stamps = {source: seen.stamp(source, flags[source]) for source in flags}
    unseen = [source for source in sorted(flags) if not stamps[source].exists()]
    if options.all:
        groups = compiled_sources.groups_of_all(unseen, flags)
    else:
        groups = compiled_sources.groups_of_newest(unseen, flags, MAX_GROUPS)
    folder = options.build / "tidy_groups"
    folder.mkdir(exist_ok=True)

    def check(group):
        found = complaint(options.clang_tidy, group, flags[group[0]], folder)
        if not found:
            for source in group:
                stamps[source].touch()
        return found

    failed = 0
    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        for found in pool.map(check, groups):
            failed += bool(found)
            print(found, end="", flush=True)
    checked = sum(map(len, groups))
    print(f"clang-tidy: {checked} sources checked in {len(groups)} groups, {failed} of them with complaints; "
          f"{len(flags) - len(unseen)} of {len(flags)} sources were seen before, {len(unseen) - checked} wait for another run or --all")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
