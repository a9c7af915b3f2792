#!/usr/bin/env python3
"""Compares the decode speed of Reprise and Hugging Face transformers on the same model folder.

Both run greedy decoding of the same prompt for the same number of tokens on the CPU, in bfloat16, with the same
number of threads. Each round runs one after the other; the result is the median over the rounds. The time per output
token excludes the first token, so loading and prefill do not count.

usage: compare_transformers.py REPRISE_BINARY MODEL [--rounds N] [--tokens N] [--threads N]

Needs torch and transformers from PyPI.
"""

import argparse
import json
import statistics
import subprocess
import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def reprise_tpot_ms(binary, model, prompt, tokens, threads):
    command = [binary, "generate", model, "--json", "--temperature", "0", "--ignore-eos",
               "--max-tokens", str(tokens), "--num-threads", str(threads), "--prompt=" + prompt]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(result.stdout)["outputs"][0]["tpot_ms"]


class Transformers:
    def __init__(self, folder, prompt, threads):
        torch.set_num_threads(threads)
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
        self.ids = AutoTokenizer.from_pretrained(folder)(prompt, return_tensors="pt").input_ids

    @torch.no_grad()
    def tpot_ms(self, tokens):
        """A plain greedy loop with the model's KV cache, without the overhead of generate()."""
        out = self.model(self.ids, use_cache=True)
        token = out.logits[:, -1:].argmax(-1)
        start = time.perf_counter()
        for _ in range(tokens - 1):
            out = self.model(token, past_key_values=out.past_key_values, use_cache=True)
            token = out.logits[:, -1:].argmax(-1)
        return (time.perf_counter() - start) / (tokens - 1) * 1e3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    prompt = "Once upon a time"
    peer = Transformers(arguments.model, prompt, arguments.threads)
    peer.tpot_ms(8)
    ours, theirs = [], []
    for _ in range(arguments.rounds):
        ours.append(reprise_tpot_ms(arguments.binary, arguments.model, prompt, arguments.tokens, arguments.threads))
        theirs.append(peer.tpot_ms(arguments.tokens))
    ratios = [t / o for o, t in zip(ours, theirs)]
    print(json.dumps({
        "tokens": arguments.tokens, "threads": arguments.threads, "rounds": arguments.rounds,
        "reprise_tpot_ms": statistics.median(ours), "reprise_min_max": [min(ours), max(ours)],
        "transformers_tpot_ms": statistics.median(theirs), "transformers_min_max": [min(theirs), max(theirs)],
        "median_ratio": statistics.median(ratios), "torch": torch.__version__}, indent=2))


if __name__ == "__main__":
    main()
