#!/usr/bin/env python3
"""Draws comments of the source for a reader who has not seen the code.

    tools/sample_comments.py [--seed TEXT] [--count N]

Prints N comments (20) with up to 15 lines of code around each. The seed is the hash of the current commit unless
one is given, so that nobody chooses the comments. A reader says in his own words what each comment means; the
author of the code then counts how many readings are right. Uses only Python's standard library.
"""

import argparse
import random
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUFFIXES = {".h", ".cpp", ".inl", ".cu", ".cuh"}
COMMENT = re.compile(r"^\s*//")
LINES_AROUND = 15


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def comments(text):
    """(first line, last line) of each block of comment lines, counted from 0."""
    lines = text.splitlines()
    start = None
    for number, line in enumerate([*lines, ""]):
        if COMMENT.match(line):
            start = number if start is None else start
        elif start is not None:
            yield start, number - 1
            start = None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default=git("rev-parse", "HEAD").strip())
    parser.add_argument("--count", type=int, default=20)
    arguments = parser.parse_args()
    places = []
    for name in git("ls-files", "src").splitlines():
        if Path(name).suffix in SUFFIXES:
            text = (ROOT / name).read_text(encoding="utf-8")
            places += [(name, first, last) for first, last in comments(text)]
    chosen = random.Random(arguments.seed).sample(places, min(arguments.count, len(places)))
    for number, (name, first, last) in enumerate(chosen, 1):
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        begin = max(0, first - LINES_AROUND // 2)
        end = min(len(lines), last + 1 + LINES_AROUND - (first - begin))
        print(f"{number}. {name}:{first + 1}\n")
        for line in range(begin, end):
            print(f"  {'>' if first <= line <= last else ' '} {lines[line]}")
        print()


if __name__ == "__main__":
    main()
