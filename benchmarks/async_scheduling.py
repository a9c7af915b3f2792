#!/usr/bin/env python3
"""Compares `reprise bench throughput` with and without --async-scheduling, in alternating runs.

    async_scheduling.py REPRISE MODEL [--rounds N] [-- options of bench throughput]

Prints for each mode the median of output tokens per second and of a step's time by phase. Also prints the median of
the ratios of neighbouring runs: a busy machine disturbs this number least. Needs only Python's standard library.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PHASES = ["schedule", "prepare", "launch", "wait", "sample", "detokenise"]


def run(args, flag):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        command = [args.reprise, "bench", "throughput", args.model, flag, "--output-json", out, *args.options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
        return json.loads(out.read_text())


def step_microseconds(result, phase):
    return 1e6 * result["step_seconds"][phase] / result["num_steps"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reprise")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=10)
    own, options = sys.argv[1:], []
    if "--" in own:
        own, options = own[: own.index("--")], own[own.index("--") + 1 :]
    args = parser.parse_args(own)
    args.options = options

    flags = ["--no-async-scheduling", "--async-scheduling"]
    results = {flag: [] for flag in flags}
    for i in range(args.rounds):
        for flag in flags if i % 2 == 0 else reversed(flags):
            results[flag].append(run(args, flag))
    ratios = [b["tokens_per_second"] / a["tokens_per_second"] for a, b in zip(*results.values())]
    quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3

    print(f"{'':>24} {'tokens/s':>9} {'us/step':>9}" + "".join(f"{phase:>11}" for phase in PHASES))
    for flag in flags:
        runs = results[flag]
        speed = statistics.median(r["tokens_per_second"] for r in runs)
        step = statistics.median(1e6 * r["elapsed_time"] / r["num_steps"] for r in runs)
        parts = [statistics.median(step_microseconds(r, phase) for r in runs) for phase in PHASES]
        print(f"{flag:>24} {speed:9.0f} {step:9.0f}" + "".join(f"{part:11.1f}" for part in parts))
    print(f"async / sync, tokens/s, of {args.rounds} pairs: median {statistics.median(ratios):.3f}, "
          f"quartiles {quartiles[0]:.3f} to {quartiles[2]:.3f}")


main()
