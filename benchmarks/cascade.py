#!/usr/bin/env python3
"""Decoding with and without cascade attention, over a prefix that all requests share.

Runs `reprise bench throughput` alternately with and without --disable-cascade-attn, on made-up weights, with one
worker, and compares user CPU time: it says what the work costs even on a machine that is not idle. The same runs with
one output token are taken off, so loading and prompts do not count.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = {
    "14 heads on 2 of 64, hidden 896": dict(
        hidden_size=896, intermediate_size=4864, num_attention_heads=14, num_key_value_heads=2, head_dim=64),
    "12 heads on 12 of 64, hidden 768": dict(
        hidden_size=768, intermediate_size=2048, num_attention_heads=12, num_key_value_heads=12, head_dim=64),
    "32 heads on 8 of 128, hidden 1024": dict(
        hidden_size=1024, intermediate_size=3072, num_attention_heads=32, num_key_value_heads=8, head_dim=128),
}
LOADS = [(1024, 8), (1024, 64), (4096, 32), (8192, 16)]
OWN_TOKENS = 16


def load(text):
    prefix, requests = text.split("x")
    return int(prefix), int(requests)


def user_seconds(program, model, prefix, requests, output_len, dtype, more=()):
    overrides = dict(model, num_hidden_layers=4, max_position_embeddings=16384)
    length = prefix + OWN_TOKENS
    # The first step computes exactly the first prompt, so the others find its prefix in the cache.
    command = [program, "bench", "throughput", ROOT / "models/reprise-tiny", "--load-format", "dummy", "--dtype", dtype,
               "--dataset-name", "random", "--random-prefix-len", prefix, "--random-input-len", OWN_TOKENS,
               "--random-output-len", output_len, "--num-prompts", requests, "--max-num-seqs", requests,
               "--max-num-batched-tokens", length, "--max-model-len", length + 128, "--enable-prefix-caching",
               "--num-threads", 1, "--level", 0, "--kv-cache-memory-bytes", "2G", "--hf-overrides", json.dumps(overrides), *more]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([str(part) for part in command], check=True, capture_output=True, env=dict(os.environ))
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=ROOT / "build/release/bin/reprise")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS, metavar="NAME")
    parser.add_argument("--loads", nargs="+", type=load, default=LOADS, metavar="PREFIXxREQUESTS", help="such as 1024x8")
    options = parser.parse_args()
    print("| model (4 layers) | prefix | requests | plain, ms per step | cascade, ms per step | ratio (range) |\n|---|---|---|---|---|---|")
    plain_flag = ["--disable-cascade-attn"]
    for name in options.models:
        model = MODELS[name]
        for prefix, requests in options.loads:
            start = user_seconds(options.program, model, prefix, requests, 1, options.dtype, plain_flag)
            pairs = []
            for _ in range(options.pairs):
                pairs.append([user_seconds(options.program, model, prefix, requests, 49, options.dtype, more) - start
                              for more in (plain_flag, [])])
            ratios = [plain / cascade for plain, cascade in pairs]
            plain, cascade = (1000 / 48 * statistics.median(column) for column in zip(*pairs))
            print(f"| {name} | {prefix} | {requests} | {plain:.1f} | {cascade:.1f} | {statistics.median(ratios):.2f} "
                  f"({min(ratios):.2f} to {max(ratios):.2f}) |", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        os.environ["REPRISE_CACHE_ROOT"] = cache
        main()
