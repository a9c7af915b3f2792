#!/usr/bin/env python3
"""Proves that the tests can see the bugs they are written for: builds each mutant and expects a failure.

    run_mutants.py SOURCE_DIR BUILD_DIR [--one-of N] [--jobs N] [--only M4 ...]

BUILD_DIR is a configured and built tree. For each mutant of mutants.json the edited files are written to an
overlay beside that build, the listed translation units are compiled against the overlay with the build's
own flags and -O1, and the test binary is linked again with the new objects in front of the old libraries. Of
the kernels' instruction sets only the one of the named test is compiled. Nothing in SOURCE_DIR or in the
build's own outputs changes. First everything is done once without the edits, and then the named tests must
pass: otherwise a mutant could "die" of the method. Standard library only.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

TEST_TIMEOUT_SECONDS = 120
INCLUDE = re.compile(r'^#include "(/.*)"$', re.M)
ISA_SOURCES = "src/reprise/kernels/isa/"
CPU_FLAG_OF_ISA = {"avx2": "avx2", "avx512": "avx512f", "avx512_vnni": "avx512_vnni", "avx512_bf16": "avx512_bf16",
                   "amx": "amx_bf16"}
ISA_OF_TEST = re.compile(r"/(\w+)_(?:float32|bfloat16|float16)$")


class Build:
    def __init__(self, source, build):
        self.source, self.build = source, build
        self.work = build / "mutants"
        self.ccache = [shutil.which("ccache")] if shutil.which("ccache") else []
        entries = json.loads((build / "compile_commands.json").read_text())
        self.commands = {Path(e["file"]): (shlex.split(e["command"]), e["directory"]) for e in entries}
        # Source -> what the build compiles it as: itself, or a group of sources that includes it.
        self.unit_of = {}
        for unit in self.commands:
            members = INCLUDE.findall(unit.read_text()) if unit.is_relative_to(build) else [unit]
            self.unit_of.update((Path(member), unit) for member in members)

    def has(self, files):
        """Whether it compiles them: without a CUDA toolkit there are none of its sources."""
        return all(self.source / file in self.unit_of or not (self.source / file).exists() for file in files)

    def units(self, files):
        return sorted({self.unit_of[self.source / file] for file in files})

    def with_overlay(self, overlay, path):
        """The overlay's copy of a source, where there is one."""
        path = Path(path)
        copy = overlay / path.relative_to(self.source) if path.is_relative_to(self.source) else path
        return copy if copy.exists() else path

    def object_of(self, unit):
        """The build's own object, relative to the build folder, as the linker's arguments name it."""
        command, _ = self.commands[unit]
        return command[command.index("-o") + 1]

    def compile(self, overlay, unit):
        command, directory = self.commands[unit]
        start = self.build if unit.is_relative_to(self.build) else self.source
        out = overlay / (str(unit.relative_to(start)) + ".o")
        out.parent.mkdir(parents=True, exist_ok=True)
        text = self.with_overlay(overlay, unit)
        if start == self.build:
            text = out.with_suffix(".cpp")
            text.write_text(INCLUDE.sub(
                lambda found: f'#include "{self.with_overlay(overlay, found[1])}"', unit.read_text()))
        command = list(command)
        command[command.index("-o") + 1] = str(out)
        command[command.index("-c") + 1] = str(text)
        # The headers of the overlay come first; a mutant may leave a variable or function unused.
        command[1:1] = ["-I" + str(overlay / "src")]
        run(self.ccache + command + ["-w", "-O1"], directory)
        return out

    def link_command(self, target):
        """The build's own command line for a test binary, and where it runs."""
        if (self.build / "build.ninja").exists():
            text = subprocess.run(["ninja", "-t", "commands", f"bin/{target}"], cwd=self.build, check=True,
                                  capture_output=True, text=True).stdout.splitlines()[-1]
            return re.sub(r"^: && | && :$", "", text), self.build
        link = next(self.build.glob(f"**/CMakeFiles/{target}.dir/link.txt"))
        return link.read_text().strip(), link.parents[2]

    def link(self, target, objects, binary):
        text, directory = self.link_command(target)
        # These objects replace those of the build and precede the libraries: the linker then never looks at the members
        # of the libraries that have the same names.
        arguments = [argument for argument in shlex.split(text) if argument not in objects]
        at = arguments.index("-o")
        arguments[at + 1] = str(binary)
        arguments[at:at] = [str(o) for o in objects.values()]
        run(arguments, directory)

    def make(self, name, edits, files, target):
        overlay = self.work / name
        shutil.rmtree(overlay, ignore_errors=True)
        for file, text in edits.items():
            (overlay / file).parent.mkdir(parents=True, exist_ok=True)
            (overlay / file).write_text(text)
        overlay.mkdir(parents=True, exist_ok=True)
        objects = {self.object_of(unit): self.compile(overlay, unit) for unit in self.units(files)}
        binary = overlay / target
        self.link(target, objects, binary)
        return binary


def run(command, directory):
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"FAILED to build: {shlex.join(map(str, command))}\n{done.stdout}{done.stderr}")


def edited_files(source, mutant):
    texts = {}
    for edit in mutant["edits"]:
        text = texts.get(edit["file"]) or (source / edit["file"]).read_text()
        if text.count(edit["find"]) != 1:
            raise SystemExit(f"{mutant['id']}: {edit['file']} holds the text to replace {text.count(edit['find'])} "
                             f"times, not once; bring mutants.json up to date:\n{edit['find']}")
        texts[edit["file"]] = text.replace(edit["find"], edit["replace"])
    return texts


def test_outcome(binary, gtest_filter):
    """Number of tests that ran, and the names of those that failed."""
    try:
        done = subprocess.run([binary, f"--gtest_filter={gtest_filter}"], capture_output=True, text=True,
                              errors="replace", timeout=TEST_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return 1, ["(timeout)"]
    ran = re.search(r"\[=+\] (\d+) tests? from .* ran", done.stdout)
    failed = sorted(set(re.findall(r"^\[  FAILED  \] ([^\s,]+\.[^\s,]+)", done.stdout, re.M)))
    if not failed and done.returncode != 0:
        started = re.findall(r"^\[ RUN      \] (\S+)", done.stdout, re.M)
        failed = [f"{started[-1] if started else '?'} (exit code {done.returncode})"]
    return int(ran.group(1)) if ran else len(failed), failed


def number_of_commits(source):
    """0 without git."""
    counted = subprocess.run(["git", "-C", source, "rev-list", "--count", "HEAD"], capture_output=True, text=True)
    return int(counted.stdout) if counted.returncode == 0 else 0


def files_to_compile(mutant):
    """The mutant's "compile", without what its test does not call: the kernels of other instruction sets than that in the
    test's name, and those that this CPU cannot run."""
    isa = ISA_OF_TEST.search(mutant["killed_by"])

    def is_called(file):
        name = Path(file).stem
        return name == isa[1] if isa else has_cpu(CPU_FLAG_OF_ISA.get(name))

    return [file for file in mutant["compile"] if not file.startswith(ISA_SOURCES) or is_called(file)]


def compile_cost(file):
    """About the seconds that a file takes with -O1. The largest one has the GPU kernels for the CPU."""
    if file.endswith("host_kernels_fixture.cpp"):
        return 70
    return 20 if file.startswith(ISA_SOURCES) else 8


def parts_of(mutants, num_parts):
    """Divides the mutants into parts that take about equally long. Mutants of one part that have the same target and files
    share a baseline. The largest mutants choose a part first, each the one that is then the shortest. The same on every CPU."""
    def files(mutant):
        kernels = [file for file in mutant["compile"] if file.startswith(ISA_SOURCES)]
        others = [file for file in mutant["compile"] if file not in kernels]
        return others + (kernels[:1] if ISA_OF_TEST.search(mutant["killed_by"]) else kernels)

    parts, costs, baselines = [[] for _ in range(num_parts)], [0] * num_parts, [set() for _ in range(num_parts)]
    for mutant in sorted(mutants, key=lambda mutant: -sum(map(compile_cost, files(mutant)))):
        own = {(mutant["target"], file): compile_cost(file) for file in files(mutant)}

        def cost_in(part):
            return costs[part] + sum(own.values()) + sum(cost for file, cost in own.items() if file not in baselines[part])

        part = min(range(num_parts), key=cost_in)
        costs[part] = cost_in(part)
        baselines[part] |= own.keys()
        parts[part].append(mutant)
    return parts


def has_cpu(flag):
    """Whether Linux names this flag of the CPU; there is always no flag."""
    return flag is None or flag in Path("/proc/cpuinfo").read_text().split()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=lambda p: Path(p).resolve())
    parser.add_argument("build", type=lambda p: Path(p).resolve())
    parser.add_argument("--only", nargs="*", help="ids of mutants")
    parser.add_argument("--one-of", type=int, default=1, metavar="N",
                        help="one of N parts of them that take about equally long, another one after each commit")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    mutants = json.loads((Path(__file__).parent / "mutants.json").read_text())
    ids = [mutant["id"] for mutant in mutants]
    if twice := {name for name in ids if ids.count(name) > 1}:
        sys.exit(f"mutants.json: two bugs have the id {', '.join(sorted(twice))}")
    edits = {m["id"]: edited_files(options.source, m) for m in mutants}  # all can still be applied
    part = parts_of(mutants, options.one_of)[number_of_commits(options.source) % options.one_of]
    for mutant in mutants:
        forgotten = {f for f in edits[mutant["id"]] if f.endswith(".cpp")} - set(mutant["compile"])
        if forgotten:
            sys.exit(f"{mutant['id']}: \"compile\" does not name {', '.join(sorted(forgotten))}, so the bug would not be built")
        mutant["compile"] = files_to_compile(mutant)
        if not mutant["compile"]:
            sys.exit(f"{mutant['id']}: \"compile\" does not name the instruction set of {mutant['killed_by']}")
    mutants = part
    if options.only:
        mutants = [m for m in mutants if m["id"] in options.only]
    build = Build(options.source, options.build)
    for mutant in [m for m in mutants if not build.has(m["compile"])]:
        print(f"{mutant['id']} skipped: this build leaves out {', '.join(mutant['compile'])}", flush=True)
        mutants.remove(mutant)
    for mutant in [m for m in mutants if not has_cpu(m.get("cpu_flag"))]:
        print(f"{mutant['id']} skipped: this CPU has no {mutant['cpu_flag']}", flush=True)
        mutants.remove(mutant)
    start = time.monotonic()

    def outcome(mutant):
        """None when a test failed, as it must; else the mutant's id."""
        binary = build.make(mutant["id"], edits[mutant["id"]], mutant["compile"], mutant["target"])
        ran, failed = test_outcome(binary, mutant["killed_by"])
        if failed:
            print(f"{mutant['id']} killed by {failed[0]}" + (f" and {len(failed) - 1} more" if failed[1:] else ""), flush=True)
        else:
            print(f"{mutant['id']} SURVIVED {ran} tests of {mutant['killed_by']}: {mutant['description']}", flush=True)
        shutil.rmtree(binary.parent, ignore_errors=True)
        return None if failed else mutant["id"]

    def check_baseline(target):
        mine = [m for m in mutants if m["target"] == target]
        files = sorted({f for m in mine for f in m["compile"]})
        unchanged = {f: (options.source / f).read_text() for m in mine for f in edits[m["id"]]}
        binary = build.make(f"baseline-{target}", unchanged, files, target)
        ran, failed = test_outcome(binary, ":".join(m["killed_by"] for m in mine))
        if ran == 0 or failed:
            raise SystemExit(f"the baseline of {target} must pass: {ran} tests ran, failed: {failed}")
        print(f"baseline {target}: {ran} tests pass", flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as jobs:
        for _ in jobs.map(check_baseline, sorted({m["target"] for m in mutants})):
            pass
        survivors = [mutant for mutant in jobs.map(outcome, mutants) if mutant]
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} mutants killed in {time.monotonic() - start:.0f} s")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
