#!/usr/bin/env python3
"""Measures what --verify-graphs costs while graphs are captured, in alternating starts.

    verify_graphs.py REPRISE MODEL [--rounds N] [--levels off,capture,strict] [-- options of generate]

Prints for each level the median of the time of capturing, with quartiles, and of the part that verification took
by its own clock. Also prints the median of the ratios to the start with `off` of the same round: a busy machine
disturbs this number least. Needs only Python's standard library.
"""

import argparse
import json
import statistics
import subprocess
import sys


def start(args, level):
    command = [args.reprise, "generate", args.model, "--prompt", "a", "--max-tokens", "1", "--json",
               "--verify-graphs", level, *args.options]
    run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    return json.loads(run.stdout)["graphs"]


def quartiles(values):
    return statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reprise")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--levels", default="off,capture")
    own, options = sys.argv[1:], []
    if "--" in own:
        own, options = own[: own.index("--")], own[own.index("--") + 1 :]
    args = parser.parse_args(own)
    args.options = options

    levels = args.levels.split(",")
    results = {level: [] for level in levels}
    for i in range(args.rounds):
        for level in levels if i % 2 == 0 else reversed(levels):
            results[level].append(start(args, level))
    print("| level | capturing, ms | quartiles | of it verifying, ms | ratio to the first level | quartiles |")
    print("|---|---|---|---|---|---|")
    for level in levels:
        seconds = [1e3 * result["capture_seconds"] for result in results[level]]
        ratios = [b["capture_seconds"] / a["capture_seconds"] for a, b in zip(results[levels[0]], results[level])]
        spread, ratio = quartiles(seconds), quartiles(ratios)
        verifying = statistics.median(1e3 * result["verify_seconds"] for result in results[level])
        print(f"| {level} | {spread[1]:.2f} | {spread[0]:.2f} to {spread[2]:.2f} | {verifying:.2f} | {ratio[1]:.3f} "
              f"| {ratio[0]:.3f} to {ratio[2]:.3f} |")


if __name__ == "__main__":
    main()
