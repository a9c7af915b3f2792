"""Every header must compile as the first line of a file.

A header that some compiled source includes first has been compiled alone by the build. The others
get a syntax-only run each. Results are kept in the build folder under a hash of the command and of
every byte that the header includes from this repository, so a second run does nothing.

usage: headers_compile_alone.py BUILD_FOLDER
"""

import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import source_tree


# Folders that are only built where the library that their headers include is installed.
OPTIONAL_FOLDERS = ("src/reprise/compile/codegen/llvm/", "src/reprise/python/", "src/reprise/device/cuda/", "src/reprise/kernels/cuda/")


def path_of(include):
    return f"src/{include}"


def compiled_sources(build_folder):
    """Source path -> compile command as a list, from CMake's record of the build."""
    entries = json.loads((Path(build_folder) / "compile_commands.json").read_text(encoding="utf-8"))
    found = {}
    for entry in entries:
        file = Path(entry["file"]).resolve()
        if file.is_relative_to(source_tree.ROOT.resolve()):
            found[file.relative_to(source_tree.ROOT.resolve()).as_posix()] = shlex.split(entry["command"])
    return found


def first_includes(sources, read=source_tree.read):
    """Headers that stand first in a source, so that its compilation proves them."""
    found = set()
    for source in sources:
        names = source_tree.includes(read(source))
        if names and names[0].startswith("reprise/"):
            found.add(path_of(names[0]))
    return found


def is_left_out(header, sources):
    """Of an optional folder that this build has not built."""
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
        elif word in ("-c", "-MD", "-MMD") or word.startswith(("-m", "-O", "-fsanitize")):
            continue
        elif word.endswith((".cpp", ".o")):
            continue
        else:
            kept.append(word)
    return kept


def check(header, flags, cache_folder):
    """The compiler's complaint, or None. `header` is a path below the root."""
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


def main(build_folder):
    sources = compiled_sources(build_folder)
    headers = set(source_tree.files(source_tree.LIBRARY, (".h",)))
    # Flags of a target that sees every third-party header that headers may include.
    flags = flags_of(sources["src/reprise/base/json.cpp"])
    headers = {header for header in headers if not is_left_out(header, sources)}
    waiting = sorted(headers - first_includes(sources))
    cache_folder = Path(build_folder) / "headers_compile_alone"
    cache_folder.mkdir(exist_ok=True)
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
        complaints = [c for c in pool.map(lambda header: check(header, flags, cache_folder), waiting) if c]
    # A test that cannot fail is no test.
    with tempfile.NamedTemporaryFile("w", suffix=".h", dir=cache_folder) as planted:
        planted.write("#pragma once\ninline std::vector<int> needs_include;\n")
        planted.flush()
        if check(os.path.relpath(planted.name, source_tree.ROOT), [*flags, "-I", str(source_tree.ROOT)], cache_folder) is None:
            complaints.append("a planted header that misses an include was accepted")
    for complaint in complaints:
        print(complaint)
    print(f"{len(headers)} headers: {len(headers) - len(waiting)} first in a source, {len(waiting)} checked here")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
