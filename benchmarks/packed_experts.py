#!/usr/bin/env python3
"""Decoding of a mixture of experts in GGUF: its share of the read bandwidth, and its peak memory.

    packed_experts.py [--shape moe-3b] [--formats q8_0 q4_0] [--folder /tmp/moe] [--repeats 5] [--binary DIR]

Writes a GGUF file of random blocks for each format, then runs `reprise bench latency` with 8 tokens of input and two
lengths of output, in turns with `cpu_roof`. The difference of the two lengths is the time of decode steps alone. With
--quantization METHOD, weights made up in bfloat16 are quantised while loading instead. Needs numpy.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import convert_to_gguf as gguf  # noqa: E402
import gguf_kinds  # noqa: E402
import make_random_checkpoint as checkpoint  # noqa: E402

LENGTHS = (9, 73)
# Bytes of 32 elements as they lie in memory: tensor/block_panels.h. Float32 matrices become bfloat16.
PANEL_BYTES = {gguf.Q8_0: 34, gguf.Q4_0: 18, gguf.F32: 64}


def file_tensors(config: dict, outtype: str):
    """Name, shape and type of each tensor of the file. "int4": as --quantization int4 makes them."""
    seen = set()
    for name, shape in checkpoint.tensor_shapes(config):
        kind = gguf.kind_of(name, list(shape), "q4_0" if outtype == "int4" else outtype, config["num_hidden_layers"])
        if outtype == "int4" and name == "model.embed_tokens.weight":
            kind = gguf.Q8_0
        layer, _, rest = name.partition(".mlp.experts.")
        if not rest:
            yield gguf_kinds.gguf_name(name, gguf_kinds.kind_of_model(config)), list(shape), kind
            continue
        module = gguf.EXPERT_NAMES[rest.split(".")[1]]
        stacked = f"blk.{layer.split('.')[2]}.{module}.weight"
        if stacked not in seen:
            seen.add(stacked)
            yield stacked, [config["num_experts"], *shape], kind


def random_bytes(shape: list, kind: int, random: np.random.Generator) -> bytes:
    count = int(np.prod(shape))
    if kind == gguf.F32:
        return (np.ones(count, "<f4") if len(shape) == 1 else random.standard_normal(count, "<f4") * 0.02).tobytes()
    size = PANEL_BYTES[kind]
    blocks = random.integers(0, 256, (count // 32, size), "u1")
    blocks[:, :2] = np.frombuffer(np.float16(0.02 / (64 if kind == gguf.Q8_0 else 4)).tobytes(), "u1")
    return blocks.tobytes()


def write_gguf(config: dict, outtype: str, path: Path) -> None:
    random = np.random.default_rng(7)
    tensors = [(name, shape, kind, random_bytes(shape, kind, random)) for name, shape, kind in file_tensors(config, outtype)]
    keys = gguf.config_keys(config, outtype) + gguf.tokenizer_keys(checkpoint.BUNDLED, config["vocab_size"])
    gguf.write_file(path, keys, tensors)


def weight_bytes(config: dict, outtype: str) -> tuple[int, int]:
    """Bytes of all matrices in memory, and of those that one decode step of one request reads."""
    total = read = 0
    for name, shape, kind in file_tensors(config, outtype):
        if len(shape) == 1:
            continue
        size = int(np.prod(shape)) * PANEL_BYTES[kind] // 32
        total += size
        read += size * config["num_experts_per_tok"] // config["num_experts"] if "_exps." in name else size
    return total, read


def run(command: list, nice: int) -> tuple[str, float]:
    """What the program printed, and its peak resident memory in MB."""
    prefix = ["nice", "-n", str(nice)] if nice else []
    process = subprocess.Popen([*prefix, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{text}")
    return text, usage.ru_maxrss * 1024 / 1e6


def decode(options, model: list) -> tuple[float, float]:
    """The fastest seconds of a decode step, and peak memory."""
    seconds, peak = [], 0.0
    for length in LENGTHS:
        with tempfile.NamedTemporaryFile(suffix=".json") as result:
            _, rss = run([options.binary / "reprise", "bench", "latency", *model, "--device", "cpu", "--input-len", 8,
                          "--output-len", length, "--batch-size", 1, "--max-num-seqs", 2, "--max-model-len", 512,
                          "--kv-cache-memory-bytes", 64 << 20, "--num-iters", options.iterations, "--num-iters-warmup", 1,
                          "--num-threads", options.threads, "--output-json", result.name], options.nice)
            seconds.append(min(json.loads(Path(result.name).read_text())["latencies"]))
            peak = max(peak, rss)
    return (seconds[1] - seconds[0]) / (LENGTHS[1] - LENGTHS[0]), peak


def bandwidth(options) -> float:
    text, _ = run([options.binary / "cpu_roof", options.threads], options.nice)
    return json.loads(text)["read_gb_s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="moe-3b")
    parser.add_argument("--formats", nargs="*", default=["q8_0", "q4_0"])
    parser.add_argument("--quantization", nargs="*", default=[])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "packed_experts")
    parser.add_argument("--binary", type=Path, default=Path("build/release/bin"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--nice", type=int, default=0, help="nice value of the measured programs, for a machine with other work")
    options = parser.parse_args()
    config = checkpoint.SHAPES[options.shape]
    options.folder.mkdir(parents=True, exist_ok=True)
    models = {}
    for outtype in options.formats:
        path = options.folder / f"{options.shape}-{outtype}.gguf"
        if not path.exists():
            write_gguf(config, outtype, path)
        models[f"GGUF {outtype}"] = (outtype, [path])
    for method in options.quantization:
        folder = options.folder / options.shape
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config | {"hidden_act": "silu", "eos_token_id": 1}))
        for name in checkpoint.TOKENIZER_FILES:
            if (checkpoint.BUNDLED / name).exists():
                (folder / name).write_bytes((checkpoint.BUNDLED / name).read_bytes())
        models[f"--quantization {method}"] = (method, [folder, "--load-format", "dummy", "--quantization", method])
    roofs, results = [], {name: [] for name in models}
    for _ in range(options.repeats):
        for name, (_, model) in models.items():
            results[name].append(decode(options, model))
            roofs.append(bandwidth(options))
    roof = max(roofs)
    print(f"read bandwidth: largest {roof:.1f}, median {statistics.median(roofs):.1f} GB/s")
    print("| model | weights MB | read in a step MB | step ms, fastest | median | share of the largest bandwidth | peak RSS MB |")
    print("|---|---|---|---|---|---|---|")
    for name, (outtype, _) in models.items():
        total, read = weight_bytes(config, outtype)
        steps = [seconds for seconds, _ in results[name]]
        share = read / min(steps) / 1e9 / roof
        print(f"| {name} | {total / 1e6:.0f} | {read / 1e6:.0f} | {min(steps) * 1e3:.1f} | {statistics.median(steps) * 1e3:.1f} "
              f"| {share:.2f} | {max(peak for _, peak in results[name]):.0f} |")


if __name__ == "__main__":
    main()
