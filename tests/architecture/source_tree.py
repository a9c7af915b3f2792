"""The repository as the architecture tests see it: which files, which includes, where the root is."""

import os
import re
from pathlib import Path

ROOT = Path(os.environ.get("REPRISE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
LIBRARY = "src/reprise"
CODE_SUFFIXES = (".h", ".cpp", ".inl", ".cu", ".cuh")
# Names that a folder only gets from building or from an editor.
SKIPPED_FOLDERS = re.compile(r"^(build.*|\..*|__pycache__)$")

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def files(below=".", suffixes=None, root=ROOT):
    """Paths relative to `root`, sorted."""
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
    """Names between quotes or angle brackets, in order."""
    return [name for _, name in _INCLUDE.findall(text)]


def is_test(path):
    """Tests, benchmarks, fuzz targets and what supports them: code that no user links."""
    name = Path(path).stem
    words = ("_test", "_benchmark", "_fuzz", "_fixture", "test_support", "test_bench", "host_allocations")
    return any(word in name for word in words)


def without_comments_and_strings(text):
    """Same line numbers, with comments and the contents of literals blanked."""
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
