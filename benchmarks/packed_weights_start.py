#!/usr/bin/env python3
"""Time from starting the process to the end of `reprise generate` with one token, with and without a packed copy.

    packed_weights_start.py MODEL [MODEL ...] [--binary build/release/bin/reprise] [--other OLD_BINARY] [--repeats 9]

All kinds of start alternate within each repeat. Prints a table: medians and ranges of wall time, processor time and
peak resident memory. Standard library only.
"""

import argparse
import os
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path


def start(binary, model, options):
    """One start: seconds, processor seconds, MB of peak resident memory, and the seconds of its stages."""
    command = [binary, "generate", model, "--device", "cpu", "--prompt", "Hello", "--max-tokens", "1", "--verbose", *options]
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    log = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{log}")
    ready = re.search(r"ready in ([0-9.]+) s \(tokenizer [0-9.]+, weights ([0-9.]+), compile [0-9.]+, capture ([0-9.]+)\)", log)
    first = re.search(r"first after ([0-9.]+) ms", log)
    engine = float(ready[1]) + float(first[1]) / 1000
    return {"wall": seconds, "engine": engine, "weights": float(ready[2]), "capture": float(ready[3]),
            "cpu": usage.ru_utime + usage.ru_stime, "rss": usage.ru_maxrss / 1024}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--binary", default="build/release/bin/reprise")
    parser.add_argument("--other", help="an older program to compare with")
    parser.add_argument("--repeats", type=int, default=9)
    args = parser.parse_args()
    print("| model | start | wall s | ready + first token s | weights s | capture s | processor s | peak RSS MB |")
    print("|---|---|---|---|---|---|---|---|")
    for model in args.models:
        with tempfile.TemporaryDirectory() as folder:
            cache = ["--packed-weights-cache", str(Path(folder) / "packed")]
            kinds = {"reads the model": (args.binary, []), "maps the copy": (args.binary, cache)}
            if args.other:
                kinds = {"older program": (args.other, []), **kinds}
            first = start(args.binary, model, cache)
            runs = {kind: [] for kind in kinds}
            for _ in range(args.repeats):
                for kind, (binary, options) in kinds.items():
                    runs[kind].append(start(binary, model, options))
        rows = {**{kind: results for kind, results in runs.items()}, "writes the copy (once)": [first]}
        for kind, results in rows.items():
            cells = []
            for key in ("wall", "engine", "weights", "capture", "cpu", "rss"):
                values = sorted(result[key] for result in results)
                digits = 0 if key == "rss" else 3
                cells.append(f"{statistics.median(values):.{digits}f} ({values[0]:.{digits}f}-{values[-1]:.{digits}f})")
            print(f"| {Path(model).name} | {kind} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
