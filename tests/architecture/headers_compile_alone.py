"""Every header must compile as the first line of a file, without precompiled headers.

usage: headers_compile_alone.py BUILD_FOLDER [--all]

Checks the headers that differ from the commit named in tools/lint_baseline, because all headers of that commit were
checked. --all checks every header (some minutes). If git does not know that commit, all headers are checked. Results
are stored in the build folder under a hash of the command and of every byte that the header includes from this
repository, so a second run does no work.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import source_tree


# Folders that are only built if the library that their headers include is installed.
OPTIONAL_FOLDERS = ("src/reprise/compile/codegen/llvm/", "src/reprise/python/", "src/reprise/device/cuda/", "src/reprise/kernels/cuda/")


def path_of(include):
    return f"src/{include}"


INCLUDE = re.compile(r'^#include "(/.*)"$', re.M)


def compiled_sources(build_folder):
    """Reads CMake's record of the build: source path -> compile command as a list."""
    root, build = source_tree.ROOT.resolve(), Path(build_folder).resolve()
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        unit = Path(entry["file"]).resolve()
        # A group of sources is a file in the build folder that includes the sources.
        members = INCLUDE.findall(unit.read_text(encoding="utf-8")) if unit.is_relative_to(build) else [unit]
        for file in map(Path, members):
            if file.is_relative_to(root):
                found[file.relative_to(root).as_posix()] = shlex.split(entry["command"])
    return found


def changed_since_baseline(baseline):
    """Paths that differ from the commit, committed or not; None if git does not know the commit."""
    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=source_tree.ROOT, capture_output=True, text=True, check=False)

    changed = git("diff", "--name-only", baseline)
    new = git("ls-files", "--others", "--exclude-standard")
    return None if changed.returncode != 0 else set((changed.stdout + new.stdout).split())


def is_left_out(header, sources):
    """Whether the header is in an optional folder that this build did not build."""
    folders = [folder for folder in OPTIONAL_FOLDERS if header.startswith(folder)]
    return any(not any(source.startswith(folder) for source in sources) for folder in folders)


def closure(header, read=source_tree.read):
    """The header and every file of this repository that it includes."""
    seen, waiting = set(), [header]
    while waiting:
        path = waiting.pop()
        if path in seen or not (source_tree.ROOT / path).exists():
            continue
        seen.add(path)
        waiting += [path_of(name) for name in source_tree.includes(read(path)) if name.startswith("reprise/")]
    return sorted(seen)


def flags_of(command):
    """Compiler and flags, without input, output, sanitizers, instruction set and compiler launcher."""
    words = [word for word in command if not word.endswith("ccache")]
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in ("-o", "-MF", "-MT", "-MQ", "-include"):
            skip = True
        elif word in ("-c", "-MD", "-MMD", "-Winvalid-pch", "-fpch-preprocess") or word.startswith(("-m", "-O", "-fsanitize")):
            continue
        elif word.endswith((".cpp", ".cxx", ".o")):
            continue
        else:
            kept.append(word)
    return kept


def check(header, flags, cache_folder):
    """The compiler's error message, or None. `header` is a path below the root."""
    key = hashlib.sha256("\0".join(flags).encode())
    for path in closure(header):
        key.update(path.encode() + b"\0" + (source_tree.ROOT / path).read_bytes())
    stamp = cache_folder / key.hexdigest()
    if stamp.exists():
        return None
    text = f'#include "{header.removeprefix("src/")}"\n'
    run = subprocess.run(
        [*flags, "-fsyntax-only", "-x", "c++", "-"], input=text, capture_output=True, text=True, check=False
    )
    if run.returncode != 0:
        return f"{header} does not compile alone:\n{run.stderr[:3000]}"
    stamp.touch()
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--all", action="store_true", help="every header, not only the changed ones")
    options = parser.parse_args()
    sources = compiled_sources(options.build)
    # These flags contain the include folders of third-party headers that any header may include. Headers of an
    # optional folder may also include those of its library, which only the sources of the folder find.
    flags = flags_of(sources["src/reprise/base/json.cpp"])
    flags_in = {folder: flags_of(next((sources[source] for source in sorted(sources) if source.startswith(folder)),
                                      sources["src/reprise/base/json.cpp"])) for folder in OPTIONAL_FOLDERS}

    def flags_for(header):
        return next((flags_in[folder] for folder in OPTIONAL_FOLDERS if header.startswith(folder)), flags)

    headers = set(source_tree.files(source_tree.LIBRARY, (".h",)))
    headers = {header for header in headers if not is_left_out(header, sources)}
    baseline = (source_tree.ROOT / "tools/lint_baseline").read_text(encoding="utf-8").strip()
    changed = None if options.all else changed_since_baseline(baseline)
    waiting = sorted(headers if changed is None else headers & changed)
    cache_folder = options.build / "headers_compile_alone"
    cache_folder.mkdir(exist_ok=True)
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
        complaints = [c for c in pool.map(lambda header: check(header, flags_for(header), cache_folder), waiting) if c]
    # Plants an error, to show that the check can fail.
    with tempfile.NamedTemporaryFile("w", suffix=".h", dir=cache_folder) as planted:
        planted.write("#pragma once\ninline std::vector<int> needs_include;\n")
        planted.flush()
        if check(os.path.relpath(planted.name, source_tree.ROOT), [*flags, "-I", str(source_tree.ROOT)], cache_folder) is None:
            complaints.append("a planted header that misses an include was accepted")
    for complaint in complaints:
        print(complaint)
    print(f"{len(waiting)} of {len(headers)} headers checked" + ("" if changed is None else f": those that differ from {baseline[:10]}"))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
