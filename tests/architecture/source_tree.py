"""The repository for the architecture tests: its root, its files and their includes."""

import hashlib
import os
import re
from functools import lru_cache
from pathlib import Path

ROOT = Path(os.environ.get("REPRISE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
LIBRARY = "src/reprise"
CODE_SUFFIXES = (".h", ".cpp", ".inl", ".cu", ".cuh")
# Folders that only builds and editors make.
SKIPPED_FOLDERS = re.compile(r"^(build.*|\..*|__pycache__)$")

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def files(below=".", suffixes=None, root=ROOT):
    """All paths, relative to `root` and sorted."""
    found = []
    for folder, folders, names in os.walk(root / below):
        folders[:] = sorted(name for name in folders if not SKIPPED_FOLDERS.match(name))
        for name in sorted(names):
            path = (Path(folder) / name).relative_to(root)
            if suffixes is None or path.suffix in suffixes:
                found.append(path.as_posix())
    return found


def code_files(below=LIBRARY, root=ROOT):
    return files(below, CODE_SUFFIXES, root)


def read(path, root=ROOT):
    return (Path(root) / path).read_text(encoding="utf-8", errors="replace")


def includes(text):
    """The names in quotes or angle brackets, in order."""
    return [name for _, name in _INCLUDE.findall(text)]


@lru_cache(maxsize=None)
def _own_includes(path):
    """The files of this repository that the file includes, and a hash of its content; None if there is no such file."""
    try:
        text = read(path)
    except FileNotFoundError:
        return None
    names = [f"src/{name}" if name.startswith("reprise/") else name for name in includes(text) if name.startswith(("reprise/", "tests/"))]
    return names, hashlib.sha256(text.encode()).hexdigest()


def closure(path):
    """The file and every file of this repository that it includes -> hash of the content, sorted by path."""
    found, waiting = {}, [path]
    while waiting:
        path = waiting.pop()
        own = None if path in found else _own_includes(path)
        if own is not None:
            found[path] = own[1]
            waiting += own[0]
    return dict(sorted(found.items()))


def is_test(path):
    """Whether the file is a test, a benchmark, a fuzz target or support code: no user links it."""
    name = Path(path).stem
    words = ("_test", "_benchmark", "_fuzz", "_fixture", "test_support", "test_bench", "host_allocations")
    return any(word in name for word in words)


def without_comments_and_strings(text):
    """The text with comments and the contents of literals blanked; line numbers stay the same."""
    pattern = re.compile(
        r'R"(?P<fence>[^()\s\\]{0,16})\(.*?\)(?P=fence)"'
        r"|//[^\n]*|/\*.*?\*/"
        r'|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
        re.DOTALL,
    )

    def blank(match):
        token = match.group(0)
        kept = '""' if token[0] in 'R"' else "''" if token[0] == "'" else " "
        return kept + "\n" * token.count("\n")

    return pattern.sub(blank, text)
