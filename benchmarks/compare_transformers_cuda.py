#!/usr/bin/env python3
"""Decode speed of Hugging Face transformers on the GPU, for comparison with cuda_benchmark's.

A model of random bfloat16 weights in the shape that `cuda_benchmark config NAME` prints, a static
cache, and the decoding step compiled with mode="reduce-overhead" (CUDA graphs). Batch 1, greedy,
contexts from 256 on, as cuda_benchmark decodes. Prints and writes one line of JSON per shape, or one
with "skipped" where torch, transformers or a GPU is missing: then there is nothing to compare with.

usage: compare_transformers_cuda.py CUDA_BENCHMARK ROWS [--shapes 0.5b 8b] [--seconds N] [--device cpu]
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

CONTEXT = 256
TOKENS = 200
WARM_UP = 20


def skipped(arguments):
    """The reason why nothing can be measured, or None."""
    try:
        import torch
        import transformers  # noqa: F401
    except ImportError as error:
        return f"no {error.name}"
    if arguments.device == "cuda" and not torch.cuda.is_available():
        return "torch sees no GPU"
    return None


def configuration(benchmark, shape):
    from transformers import AutoConfig

    fields = json.loads(subprocess.run([benchmark, "config", shape], capture_output=True, text=True, check=True).stdout)
    return AutoConfig.for_model(fields.pop("model_type"), **fields)


def tokens_per_second(config, device, tokens=TOKENS):
    import torch
    from transformers import AutoModelForCausalLM, StaticCache

    torch.set_float32_matmul_precision("high")
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    length = CONTEXT + WARM_UP + tokens
    cache = StaticCache(config=config, max_batch_size=1, max_cache_len=length, device=device, dtype=torch.bfloat16)
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None

    def step(token, position):
        logits = model(token, cache_position=position, past_key_values=cache, use_cache=True).logits
        return logits[:, -1:].argmax(-1)

    compiled = torch.compile(step, mode="reduce-overhead", fullgraph=True)
    with torch.no_grad():
        prompt = torch.randint(1, config.vocab_size, (1, CONTEXT), device=device)
        token = step(prompt, torch.arange(CONTEXT, device=device))
        times = []
        for i in range(WARM_UP + tokens):
            position = torch.tensor([CONTEXT + i], device=device)
            start = time.perf_counter()
            # The next replay overwrites the graph's output, so the token is copied.
            token = compiled(token.clone(), position)
            synchronize()
            if i >= WARM_UP:
                times.append(time.perf_counter() - start)
    return 1 / statistics.median(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("benchmark")
    parser.add_argument("out")
    parser.add_argument("--shapes", nargs="+", default=["0.5b", "8b"])
    parser.add_argument("--seconds", type=float, default=40, help="seconds after which no further shape begins")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    with open(arguments.out, "w", encoding="utf-8") as out:
        # A row is in the file as soon as its shape is measured.
        def add(row):
            line = json.dumps({"what": "transformers", "row": "transformers"} | row)
            print(line, flush=True)
            out.write(line + "\n")
            out.flush()

        why = skipped(arguments)
        if why:
            add({"skipped": why})
            return 0
        import torch
        import transformers

        versions = {"torch": torch.__version__, "transformers": transformers.__version__}
        start = time.monotonic()
        for shape in arguments.shapes:
            if time.monotonic() - start > arguments.seconds:
                add({"shape": shape, "skipped": "no time left"})
                continue
            config = configuration(arguments.benchmark, shape)
            add({"shape": shape, "tokens_per_second": tokens_per_second(config, arguments.device)} | versions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
