#!/usr/bin/env python3
"""Compares `reprise generate` with and without n-gram drafts, in alternating runs.

    speculation.py REPRISE MODEL [--rounds N] [--drafts N] [--lookup-min N] [--lookup-max N] [--prompts N]
                   [-- options of generate]

MODEL is the bundled model or one with the same eval/problems.jsonl. Two tasks, one request at a time:
  copy           each prompt holds three answered problems and asks one of them again, so the answer is in the prompt
  no repetition  stories at temperature 1
The tokens of all runs must be equal. Prints for each task the median decode time per token, and the median and quartiles
of the ratios of neighbouring runs: of the time, and of the CPU time of the process beyond that of the same run with one
token per answer. A busy machine disturbs CPU time least; with --num-threads 1 nothing of it is spent waiting. Needs only
Python's standard library.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
from pathlib import Path

ANIMALS = ["fox", "cat", "frog", "pony", "mouse", "rabbit", "squirrel", "duck"]
NAMES = ["Lily", "Tom", "Grace", "Finn", "Lucy", "Max"]


def copy_prompts(model):
    problems = [json.loads(line) for line in (Path(model) / "eval/problems.jsonl").read_text().splitlines()]
    prompts = []
    for i in range(0, 240, 3):
        group = problems[i : i + 3]
        solved = "".join(f"Question: {p['question']}\nAnswer: {p['answer']}\n\n" for p in group)
        prompts.append(solved + f"Question: {group[i % 2]['question']}\nAnswer:")
    return prompts


def tasks(model):
    stories = [f"Once upon a time, there was a little {animal} named {name}" for animal in ANIMALS for name in NAMES]
    return {
        "copy": (copy_prompts(model), ["--temperature", "0", "--max-tokens", "120", "--stop", "\n\n"]),
        "no repetition": (stories, ["--temperature", "1", "--max-tokens", "250", "--ignore-eos"]),
    }


def cpu_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def quartiles(ratios):
    low, median, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3
    return f"median {median:.3f}, quartiles {low:.3f} to {high:.3f}"


def run(args, prompts, options, config):
    command = [args.reprise, "generate", args.model, "--json", "--max-num-seqs", "1", "--speculative-config", json.dumps(config)]
    for prompt in prompts:
        command += ["--prompt", prompt]
    cpu_before = cpu_of_children()
    done = subprocess.run([*command, *options, *args.options], check=True, capture_output=True, text=True, timeout=600)
    document = json.loads(done.stdout)
    answers = document["outputs"]
    return {
        "cpu": cpu_of_children() - cpu_before,
        "tokens": [answer["token_ids"] for answer in answers],
        # The first token of each answer comes from the prompt's step.
        "decoded": sum(len(answer["token_ids"]) - 1 for answer in answers),
        "ms": sum(answer["tpot_ms"] * (len(answer["token_ids"]) - 1) for answer in answers),
        "steps": sum(mode["replayed_steps"] for mode in document["graphs"]["modes"].values()),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reprise")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--drafts", type=int, default=4)
    parser.add_argument("--lookup-min", type=int, default=2)
    parser.add_argument("--lookup-max", type=int, default=5)
    parser.add_argument("--prompts", type=int, help="only the first ones of each task")
    parser.add_argument("--config", type=json.loads, help="another --speculative-config to compare")
    parser.add_argument("--greedy", action="store_true", help="stories at temperature 0")
    own, options = sys.argv[1:], []
    if "--" in own:
        own, options = own[: own.index("--")], own[own.index("--") + 1 :]
    args = parser.parse_args(own)
    args.options = options
    drafts = {"method": "ngram", "num_speculative_tokens": args.drafts, "prompt_lookup_min": args.lookup_min,
              "prompt_lookup_max": args.lookup_max}
    drafts = args.config or drafts
    args.options += ["--temperature", "0"] if args.greedy else []
    configs = {"plain": None, "drafts": drafts}
    for task, (prompts, task_options) in tasks(args.model).items():
        prompts = prompts[: args.prompts]
        results = {name: [] for name in configs}
        for i in range(args.rounds):
            for name in configs if i % 2 == 0 else reversed(configs):
                results[name].append(run(args, prompts, task_options, configs[name]))
        everything = [result for runs in results.values() for result in runs]
        assert all(result["tokens"] == everything[0]["tokens"] for result in everything), "the tokens differ"
        start = {
            name: statistics.median(
                run(args, prompts, [*task_options, "--max-tokens", "1"], config)["cpu"] for _ in range(3)
            )
            for name, config in configs.items()
        }
        pairs = list(zip(*results.values(), strict=True))
        print(f"{task}: {everything[0]['decoded']} tokens decoded")
        for name, runs in results.items():
            per_token = statistics.median(1e3 * result["ms"] / result["decoded"] for result in runs)
            cpu = statistics.median(1e6 * (result["cpu"] - start[name]) / result["decoded"] for result in runs)
            print(f"  {name:>6}: {per_token:.1f} us per token, {cpu:.1f} us of CPU, {runs[0]['steps']} graph steps")
        print(f"  speed-up, {args.rounds} pairs: {quartiles([a['ms'] / b['ms'] for a, b in pairs])}")
        cpu_ratios = [(a["cpu"] - start["plain"]) / (b["cpu"] - start["drafts"]) for a, b in pairs]
        print(f"  of CPU time: {quartiles(cpu_ratios)}")


main()
