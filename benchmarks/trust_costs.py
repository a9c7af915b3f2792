#!/usr/bin/env python3
"""Measures what checks and logs cost `reprise bench throughput`, in runs that alternate.

    trust_costs.py REPRISE MODEL [--rounds N] [--before REPRISE] [-- options of bench throughput]

The sides are `--verify-graphs off`, no option, `--shadow-check-rate 0.001`, and `--replay-log`. Prints for each the
medians of output tokens per second and of the processor time of the whole process, and the medians and quartiles of the
ratios to the first side within a round: a busy machine disturbs these least. --before names another program, which runs
without any of these options. Needs only Python's standard library.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SIDES = {"verifier off": ("--verify-graphs", "off"), "default": (), "shadow 0.001": ("--shadow-check-rate", "0.001"), "replay log": ("--replay-log", "{log}")}


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(program, model, options, of_side):
    with tempfile.TemporaryDirectory() as folder:
        out, log = Path(folder) / "result.json", Path(folder) / "answers.log"
        command = [program, "bench", "throughput", model, "--output-json", out, *options, *(word.format(log=log) for word in of_side)]
        began = processor_seconds()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
        result = json.loads(out.read_text())
        result["processor_seconds"] = processor_seconds() - began
        if log.exists():
            records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
            answers = [record for record in records if record["kind"] == "request"]
            result["answers"] = len(answers)
            result["tokens"] = sum(len(answer["tokens"]) for answer in answers)
            prompts = sum(len(answer["prompt"]) for answer in answers)
            result["bytes_per_token"] = log.stat().st_size / (result["tokens"] + prompts)
        return result


def spread(values):
    quartiles = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return f"{statistics.median(values):.4f} | {quartiles[0]:.4f} to {quartiles[2]:.4f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reprise")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--before")
    own, options = sys.argv[1:], []
    if "--" in own:
        own, options = own[: own.index("--")], own[own.index("--") + 1 :]
    args = parser.parse_args(own)

    sides = {side: (args.reprise, of_side) for side, of_side in SIDES.items()}
    if args.before:
        sides = {"before": (args.before, ()), **sides}
    results = {side: [] for side in sides}
    for i in range(args.rounds):
        for side in sides if i % 2 == 0 else reversed(sides):
            program, of_side = sides[side]
            results[side].append(run(program, args.model, options, of_side))

    print("| side | tokens/s | processor s |\n|---|---:|---:|")
    for side, runs in results.items():
        print(f"| {side} | {statistics.median(r['tokens_per_second'] for r in runs):.0f} "
              f"| {statistics.median(r['processor_seconds'] for r in runs):.3f} |")
    print("\n| ratio of pairs | tokens/s, median | quartiles | processor time, median | quartiles |\n|---|---:|---|---:|---|")
    base, *others = sides
    for side in others:
        pairs = list(zip(results[base], results[side], strict=True))
        print(f"| {side} / {base} | {spread([b['tokens_per_second'] / a['tokens_per_second'] for a, b in pairs])} "
              f"| {spread([b['processor_seconds'] / a['processor_seconds'] for a, b in pairs])} |")
    last = results["replay log"][-1]
    print(f"\nthe log has {last['answers']} answers and {last['tokens']} tokens of answers; "
          f"{last['bytes_per_token']:.1f} bytes a token of prompts and answers")


main()
