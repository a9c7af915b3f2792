"""Every header must compile as the first line of a file, without precompiled headers.

usage: headers_compile_alone.py BUILD_FOLDER [--all]

Results are stored in the build folder under a hash of the command and of every byte that the header includes from this
repository, so that no header is checked twice. One run checks at most NUM_CHANGED headers that the newest commits or the
working tree changed, newest first, and NUM_OTHERS of the other headers, from a place in their list that depends on the
number of commits: in a fresh clone, where no results are stored, all would take minutes. --all checks every header.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import compiled_sources
import recent_changes
import source_tree

NUM_CHANGED = 30
NUM_OTHERS = 15

# Folders that are built only if the library that their headers include is installed.
OPTIONAL_FOLDERS = ("src/reprise/compile/codegen/llvm/", "src/reprise/python/", "src/reprise/device/cuda/", "src/reprise/kernels/cuda/")


def is_left_out(header, sources):
    """Whether the header is in an optional folder that this build did not build."""
    folders = [folder for folder in OPTIONAL_FOLDERS if header.startswith(folder)]
    return any(not any(source.startswith(folder) for source in sources) for folder in folders)


def flags_of(command):
    """Compiler and flags, without input, output, sanitizers, instruction set and level of optimisation."""
    return [compiled_sources.compiler_of(command), *compiled_sources.flags_of(command, ("-m", "-O", "-fsanitize"))]


def stamp_of(header, flags, cache_folder):
    """The file that says that the header compiles as it is. `header` is a path below the root."""
    key = hashlib.sha256("\0".join(flags).encode())
    key.update(repr(source_tree.closure(header)).encode())
    return cache_folder / key.hexdigest()


def check(header, flags, cache_folder):
    """The compiler's error message, or None."""
    text = f'#include "{header.removeprefix("src/")}"\n'
    run = subprocess.run(
        [*flags, "-fsyntax-only", "-x", "c++", "-"], input=text, capture_output=True, text=True, check=False
    )
    if run.returncode != 0:
        return f"{header} does not compile alone:\n{run.stderr[:3000]}"
    stamp_of(header, flags, cache_folder).touch()
    return None


def chosen(unknown):
    """The headers of one run, of those whose result is not known; `unknown` is sorted."""
    ages = recent_changes.ages()
    changed = sorted((header for header in unknown if header in ages), key=lambda header: (ages[header], header))[:NUM_CHANGED]
    others = [header for header in unknown if header not in changed]
    start = recent_changes.number_of_commits() * NUM_OTHERS % max(len(others), 1)
    return changed + (others[start:] + others[:start])[:NUM_OTHERS]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--all", action="store_true", help="every header")
    options = parser.parse_args()
    sources = compiled_sources.commands(options.build)
    # These flags contain the include folders of third-party headers that any header may include. Headers of an
    # optional folder may also include those of its library, which only the sources of the folder find.
    flags = flags_of(sources["src/reprise/base/json.cpp"])
    flags_in = {folder: flags_of(next((sources[source] for source in sorted(sources) if source.startswith(folder)),
                                      sources["src/reprise/base/json.cpp"])) for folder in OPTIONAL_FOLDERS}

    def flags_for(header):
        return next((flags_in[folder] for folder in OPTIONAL_FOLDERS if header.startswith(folder)), flags)

    headers = set(source_tree.files(source_tree.LIBRARY, (".h",)))
    headers = {header for header in headers if not is_left_out(header, sources)}
    cache_folder = options.build / "headers_compile_alone"
    cache_folder.mkdir(exist_ok=True)
    unknown = sorted(header for header in headers if not stamp_of(header, flags_for(header), cache_folder).exists())
    waiting = unknown if options.all else chosen(unknown)
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
    print(f"{len(waiting)} headers checked; {len(headers) - len(unknown)} of {len(headers)} were checked before")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
