#!/usr/bin/env python3
"""Adds a few inputs that reach new code to a corpus, those first that reach the most.

    choose_fuzz_corpus.py MERGE_CONTROL_FILE CORPUS_FOLDER [--most N]

libFuzzer's own merge keeps every input that reaches any edge a new number of times: a thousand for a parser. A corpus that
people review needs the edges only. Uses only Python's standard library.
"""

import argparse
import shutil
from pathlib import Path


def read(control_file):
    """The files of a merge, how many of them were in the corpus before, and the edges that each reaches."""
    lines = control_file.read_text().splitlines()
    num_files, num_before = int(lines[0]), int(lines[1])
    edges = [set() for _ in range(num_files)]
    for line in lines[2 + num_files:]:
        kind, *numbers = line.split()
        if kind == "COV":
            edges[int(numbers[0])].update(numbers[1:])
    return [Path(name) for name in lines[2:2 + num_files]], num_before, edges


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("control_file", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--most", type=int, default=40)
    options = parser.parse_args()
    files, num_before, edges = read(options.control_file)
    known = set().union(*edges[:num_before])
    num_known = len(known)
    new = set(range(num_before, len(files)))
    for number in range(options.most):
        best = max(new, default=None, key=lambda i: (len(edges[i] - known), -files[i].stat().st_size))
        if best is None or not edges[best] - known:
            break
        new.remove(best)
        known |= edges[best]
        shutil.copy(files[best], options.corpus / ("fuzzed_" + files[best].name[:8]))
    print(f"{options.corpus.name}: {num_known} edges before, {len(known)} now, {len(set().union(*edges))} in all inputs")


if __name__ == "__main__":
    main()
