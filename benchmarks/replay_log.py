#!/usr/bin/env python3
"""Measures what --replay-log costs `reprise bench throughput`, in runs that alternate.

    replay_log.py REPRISE MODEL [--rounds N] [--before REPRISE] [-- options of bench throughput]

Prints for each side the medians of output tokens per second and of the processor time of the whole process, and the
medians and quartiles of the ratios of neighbouring runs: a busy machine disturbs these least. --before names a program
from before there was a log, which makes no digests of logits. Needs only Python's standard library.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(program, model, options, logs):
    with tempfile.TemporaryDirectory() as folder:
        out, log = Path(folder) / "result.json", Path(folder) / "answers.log"
        command = [program, "bench", "throughput", model, "--output-json", out, *options]
        began = processor_seconds()
        subprocess.run([*command, *(["--replay-log", log] if logs else [])], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=600)
        result = json.loads(out.read_text())
        result["processor_seconds"] = processor_seconds() - began
        if logs:
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

    sides = {"no log": (args.reprise, False), "log": (args.reprise, True)}
    if args.before:
        sides = {"before": (args.before, False), **sides}
    results = {side: [] for side in sides}
    for i in range(args.rounds):
        for side in sides if i % 2 == 0 else reversed(sides):
            program, logs = sides[side]
            results[side].append(run(program, args.model, options, logs))

    print("| side | tokens/s | processor s |\n|---|---:|---:|")
    for side, runs in results.items():
        print(f"| {side} | {statistics.median(r['tokens_per_second'] for r in runs):.0f} "
              f"| {statistics.median(r['processor_seconds'] for r in runs):.3f} |")
    print("\n| ratio of pairs | tokens/s, median | quartiles | processor time, median | quartiles |\n|---|---:|---|---:|---|")
    for base in list(sides)[:-1]:
        pairs = list(zip(results[base], results["log"], strict=True))
        print(f"| log / {base} | {spread([b['tokens_per_second'] / a['tokens_per_second'] for a, b in pairs])} "
              f"| {spread([b['processor_seconds'] / a['processor_seconds'] for a, b in pairs])} |")
    last = results["log"][-1]
    print(f"\nthe log has {last['answers']} answers and {last['tokens']} tokens of answers; "
          f"{last['bytes_per_token']:.1f} bytes a token of prompts and answers")


main()
