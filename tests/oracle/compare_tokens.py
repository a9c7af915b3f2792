#!/usr/bin/env python3
"""Compares Reprise's greedy tokens and log probabilities with those that vllm_tokens.py recorded.

    compare_tokens.py REPRISE_BINARY RECORDED_FOLDER [NAME ...] [--report FILE.md]

For each recorded checkpoint, `reprise serve` answers the same prompts in float32: each alone and all in one request, with
graphs, and in chunks of 16 tokens. Tokens are compared by the margin rule: they must be equal up to the first place where
vLLM's best and second-best token are nearer to each other than 4 x TOLERANCE; what follows such a place is another text
and is not compared. Log probabilities must agree within TOLERANCE. Uses only Python's standard library.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "integration"))
import architectures_test  # noqa: E402 - after the path is set
import serve_test  # noqa: E402

TOLERANCE = 2e-4
# The logits of this checkpoint are large: the log probabilities of vLLM itself differ by 3e-4 between a request alone
# and the same request in a batch.
WIDER_TOLERANCES = {"deepseek-v2-lite": 2e-3}
LARGEST_SHARE_OF_TIES = 0.02
# Name of a server -> its options. Chunks of 16 tokens also mix prompts with answers in one step.
SERVERS = {"graphs": [], "chunks": ["--max-num-batched-tokens", "16", "--max-num-seqs", "4"]}
# Checkpoints with which vLLM computes another function than Transformers does. Reprise follows Transformers. For each
# checkpoint: the options under which Reprise computes the function of vLLM, and the reason for the difference. Without
# these options, the answers must differ.
DIFFERS = {
    "cohere2": (["--hf-overrides", '{"sliding_window": 10}'],
                "equal with a sliding window that is larger by one: vLLM adds one to it, Transformers does not"),
    "llama4": (["--hf-overrides", '{"attn_temperature_tuning": false}'],
               "equal without attn_temperature_tuning: vLLM leaves it out for models of up to 32768 positions"),
}
# Checkpoints that vLLM answers differently alone and in a batch, so that there is nothing to compare with.
UNSTABLE = {"deepseek-v2"}


def ask(server, prompts, num_tokens):
    status, answer = server.post("/v1/completions", {
        "model": serve_test.NAME, "prompt": prompts, "max_tokens": num_tokens, "temperature": 0, "ignore_eos": True,
        "logprobs": 1, "return_token_ids": True})
    assert status == 200, answer
    return [{"tokens": choice["token_ids"], "logprobs": choice["logprobs"]["token_logprobs"]} for choice in answer["choices"]]


def reprise_answers(folder, prompts, num_tokens, more_options):
    """By server and way: the answers to all prompts."""
    answers = {}
    for server_name, options in SERVERS.items():
        serve_test.MODEL = str(folder)
        server = serve_test.Server("--dtype", "float32", "--max-model-len", "128", "--disable-compile-cache", *options, *more_options)
        try:
            answers[server_name, "alone"] = [ask(server, [prompt], num_tokens)[0] for prompt in prompts]
            answers[server_name, "batched"] = ask(server, prompts, num_tokens)
        finally:
            server.stop()
    return answers


def compare(got, want, tolerance):
    """(tokens compared, tokens behind a near tie, largest distance of log probabilities, first real difference or None)"""
    worst = 0.0
    for place, (token, expected) in enumerate(zip(got["tokens"], want["tokens"], strict=True)):
        if token != expected:
            is_tie = want["margins"][place] <= 4 * tolerance
            return place, len(want["tokens"]) - place, worst, None if is_tie else place
        worst = max(worst, abs(got["logprobs"][place] - want["logprobs"][place]))
    return len(want["tokens"]), 0, worst, None


def compare_checkpoint(recorded, folder, options=()):
    """A row of the table, and the differences as sentences."""
    prompts, differences = recorded["prompts"], []
    row = {"name": recorded["name"], "compared": 0, "ties": 0, "worst": 0.0}
    tolerance = WIDER_TOLERANCES.get(recorded["name"], TOLERANCE)
    answers = reprise_answers(folder, prompts, len(recorded["alone"][0]["tokens"]), options)
    # The two ways of vLLM itself, so that a difference between these is not taken for a mistake of Reprise.
    answers["vLLM", "batched"] = recorded["batched"]
    for (who, way), outputs in answers.items():
        wanted = recorded["alone" if who == "vLLM" else way]
        for prompt, got, want in zip(prompts, outputs, wanted, strict=True):
            compared, ties, worst, place = compare(got, want, tolerance)
            where = f"{recorded['name']}, {who}, {way}, prompt of {len(prompt)} tokens"
            if place is not None:
                differences.append(f"{where}: token {place} is {got['tokens'][place]}, vLLM has {want['tokens'][place]}, "
                                   f"{want['margins'][place]:.2e} before its second-best token")
            if worst > tolerance:
                differences.append(f"{where}: a log probability is {worst:.2e} away from vLLM's")
            if who != "vLLM":
                row["compared"] += compared
                row["ties"] += ties
                row["worst"] = max(row["worst"], worst)
    if row["ties"] > LARGEST_SHARE_OF_TIES * (row["compared"] + row["ties"]):
        differences.append(f"{recorded['name']}: {row['ties']} tokens are behind near ties, which is more than "
                           f"{LARGEST_SHARE_OF_TIES:.0%} of all")
    return row, differences


def compare_recorded(recorded, folder):
    """A row of the table with its outcome, and the differences that are not listed."""
    architectures_test.write_tokenizer(folder)
    row, differences = compare_checkpoint(recorded, folder)
    if recorded["name"] in UNSTABLE:
        # A line for each pair of answers of vLLM.
        own = [difference for difference in differences if ", vLLM, " in difference]
        return row | {"outcome": "not comparable: vLLM gives one answer alone and another in a batch"}, (
            [] if own else [f"{recorded['name']}: vLLM agrees with itself; take it out of UNSTABLE"])
    if recorded["name"] not in DIFFERS:
        return row | {"outcome": f"{len(differences)} differences" if differences else "equal"}, differences
    options, reason = DIFFERS[recorded["name"]]
    if not differences:
        return row | {"outcome": "equal"}, [f"{recorded['name']}: vLLM and Reprise agree here; remove this kind from DIFFERS"]
    row, differences = compare_checkpoint(recorded, folder, options)
    return row | {"outcome": f"{len(differences)} differences" if differences else reason}, differences


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("recorded", type=Path)
    parser.add_argument("names", nargs="*", help="only these checkpoints")
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    serve_test.BINARY = options.binary
    rows, num_differences, num_compared = [], 0, 0
    for path in sorted(options.recorded.glob("*.json")):
        recorded = json.loads(path.read_text())
        name = recorded["name"]
        if options.names and name not in options.names:
            continue
        if "refused" in recorded:
            reason = recorded["refused"].strip().splitlines()[-1]
            print(f"{name}: vLLM refuses it: {reason}", flush=True)
            rows.append(f"| {name} | | | | vLLM refuses it: {reason} |")
            continue
        row, differences = compare_recorded(recorded, options.recorded / name)
        num_compared += 1
        num_differences += len(differences)
        print(f"{name}: {row['compared']} tokens equal, {row['ties']} behind near ties, log probabilities within {row['worst']:.1e}: "
              f"{row['outcome']}", flush=True)
        for difference in differences:
            print(f"  {difference}")
        rows.append(f"| {name} | {row['compared']} | {row['ties']} | {row['worst']:.1e} | {row['outcome']} |")
    if options.report:
        head = ["| checkpoint | tokens equal | tokens behind near ties | largest distance of log probabilities | outcome |", "|---|---|---|---|---|"]
        options.report.write_text("\n".join(head + rows) + "\n")
    print(f"{num_compared} checkpoints compared: {num_differences} unlisted differences")
    return 1 if num_differences or not num_compared else 0


if __name__ == "__main__":
    sys.exit(main())
