#!/usr/bin/env python3
"""Speed of Reprise and of other CPU engines on the same weights, interleaved in one run.

Every round runs each engine once per format, one after the other, each in a process of its own: a prompt of
--prompt tokens (prefill), then --decode tokens one by one. The weights are random, of a real shape
(tools/make_random_checkpoint.py); the GGUF files are made from the same folder (tools/convert_to_gguf.py).
The denominators, read bandwidth and the peak of the matrix instructions, are measured at the beginning of
every round by build/release/bin/cpu_roof. Writes peers.json, peers.md and peers.svg.

    python3 -m venv /tmp/peers
    /tmp/peers/bin/pip install numpy llama-cpp-python ik-llama-cpp-python openvino-genai
    tools/make_random_checkpoint.py qwen2.5-0.5b /tmp/qwen --dtype bf16
    /tmp/peers/bin/python benchmarks/bench_peers.py build/release/bin/reprise /tmp/qwen --out /tmp/peers-out

An engine that is not installed, or that cannot read a format, is left out with its reason.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENGINES = ("reprise", "llama.cpp", "ik_llama.cpp", "openvino")
FORMATS = ("bf16", "q8_0", "q4_0")
PROMPT_TOKEN = 100  # any; the time does not depend on it
WARMUP_TOKENS = 8


# ------------------------------------------------------------------------------- one engine, one process


def timed(call) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def measure_llama_cpp(module: str, path: str, threads: int, prompt: int, decode: int) -> tuple[float, float]:
    """llama-cpp-python and ik-llama-cpp-python, through their common Python interface."""
    llama = __import__(module, fromlist=["Llama"]).Llama
    model = llama(model_path=path, n_ctx=prompt + decode + 64, n_threads=threads, n_threads_batch=threads,
                  n_batch=prompt, n_ubatch=prompt, verbose=False)
    tokens = [PROMPT_TOKEN + i % 900 for i in range(prompt)]
    model.eval(tokens[:WARMUP_TOKENS])
    model.reset()
    prefill = timed(lambda: model.eval(tokens))
    seconds = timed(lambda: [model.eval([PROMPT_TOKEN]) for _ in range(decode)])
    return prompt / prefill, decode / seconds


def measure_openvino(path: str, threads: int, prompt: int, decode: int) -> tuple[float, float]:
    import numpy
    import openvino
    import openvino_genai

    pipeline = openvino_genai.LLMPipeline(path, "CPU", INFERENCE_NUM_THREADS=threads)
    ids = numpy.array([[PROMPT_TOKEN + i % 900 for i in range(prompt)]], dtype=numpy.int64)
    inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids)))
    config = openvino_genai.GenerationConfig(max_new_tokens=decode + 1, ignore_eos=True, do_sample=False)
    short = openvino_genai.GenerationConfig(max_new_tokens=2, ignore_eos=True, do_sample=False)
    pipeline.generate(inputs, short)
    metrics = pipeline.generate(inputs, config).perf_metrics
    return prompt / (metrics.get_ttft().mean / 1e3), 1e3 / metrics.get_tpot().mean


def run_worker(arguments) -> None:
    engine, path = arguments.worker
    sizes = (arguments.threads, arguments.prompt, arguments.decode)
    if engine == "openvino":
        prefill, decode = measure_openvino(path, *sizes)
    else:
        module = "llama_cpp" if engine == "llama.cpp" else "ik_llama_cpp"
        prefill, decode = measure_llama_cpp(module, path, *sizes)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"prefill": prefill, "decode": decode, "rss_mb": peak / 1024}))


def last_json(command: list[str]) -> dict:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in result.stdout.splitlines() if line.startswith("{")]
    if result.returncode != 0 or not lines:
        reason = (result.stderr or result.stdout).strip().splitlines()
        return {"error": reason[-1][:200] if reason else f"exit status {result.returncode}"}
    return json.loads(lines[-1])


def reprise_latency(arguments, path: str, prompt: int, tokens: int, out: Path) -> tuple[float, float]:
    """The median of the latencies in seconds, and the peak memory of the process in MB."""
    command = [arguments.binary, "bench", "latency", path, "--input-len", str(prompt), "--output-len", str(tokens),
               "--batch-size", "1", "--num-iters-warmup", "1", "--num-iters", "3", "--no-enable-prefix-caching",
               "--max-model-len", str(arguments.prompt + arguments.decode + 64),
               "--num-threads", str(arguments.threads), "--output-json", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)  # the usage of this child alone
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command, stderr=errors)
    return statistics.median(json.loads(out.read_text())["latencies"]), usage.ru_maxrss / 1024


def measure_reprise(arguments, path: str) -> dict:
    out = arguments.out / "latency.json"
    try:
        prefill, _ = reprise_latency(arguments, path, arguments.prompt, 1, out)
        both, peak = reprise_latency(arguments, path, arguments.prompt, arguments.decode + 1, out)
    except subprocess.CalledProcessError as error:
        return {"error": error.stderr.strip().splitlines()[-1][:200] if error.stderr else str(error)}
    return {"prefill": arguments.prompt / prefill, "decode": arguments.decode / (both - prefill), "rss_mb": peak}


def measure(arguments, engine: str, path: str) -> dict:
    if engine == "reprise":
        return measure_reprise(arguments, path)
    command = [sys.executable, __file__, str(arguments.binary), str(arguments.folder), "--worker", engine, path]
    for name in ("threads", "prompt", "decode"):
        command += [f"--{name}", str(getattr(arguments, name))]
    return last_json(command)


# ------------------------------------------------------------------------------------------------ report


def gguf_of(arguments, kind: str) -> Path:
    path = arguments.out / f"{arguments.folder.name}-{kind}.gguf"
    if not path.exists():
        subprocess.run([sys.executable, ROOT / "tools" / "convert_to_gguf.py", arguments.folder, path,
                        "--outtype", kind], check=True)
    return path


def median_of(rounds: list[dict], key: str) -> float | None:
    values = [entry[key] for entry in rounds if key in entry]
    return statistics.median(values) if values else None


def table_rows(results: dict, roofs: list[dict], sizes: dict) -> list[list[str]]:
    bandwidth = median_of(roofs, "read_gb_s")
    rows = []
    for kind, engines in results.items():
        for engine, rounds in engines.items():
            errors = [entry["error"] for entry in rounds if "error" in entry]
            if errors:
                rows.append([kind, engine, "not measured: " + errors[0], "", "", ""])
                continue
            decode, prefill = median_of(rounds, "decode"), median_of(rounds, "prefill")
            spread = [entry["decode"] for entry in rounds]
            share = decode * sizes[kind] / 1e9 / bandwidth if bandwidth else 0
            rows.append([kind, engine, f"{decode:.1f} ({min(spread):.1f} to {max(spread):.1f})", f"{share:.2f}",
                         f"{prefill:.0f}", f"{median_of(rounds, 'rss_mb'):.0f}"])
    return rows


def markdown(rows: list[list[str]], roofs: list[dict], arguments) -> str:
    lines = [f"Random weights of {arguments.folder.name}, {arguments.threads} threads, {arguments.rounds} rounds, medians;",
             f"prompt {arguments.prompt} tokens, then {arguments.decode} tokens. Machine: {platform.processor() or platform.machine()}.",
             ""]
    for key, name in (("read_gb_s", "read bandwidth, GB/s"), ("int8_tops", "peak of int8 products, TOP/s"),
                      ("bf16_tflops", "peak of bfloat16 products, TFLOP/s")):
        if median_of(roofs, key):
            lines.append(f"- {name}: {median_of(roofs, key):.2f}")
    lines += ["", "| weights | engine | decode, tokens/s | share of the bandwidth | prefill, tokens/s | peak RSS, MB |",
              "|---|---|---|---|---|---|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def svg(results: dict) -> str:
    """Two groups of bars, decode and prefill, one bar per format and engine."""
    colours = dict(zip(ENGINES, ("#2a6fdb", "#d9822b", "#8a5fbf", "#3a9d6a")))
    parts, y = [], 40
    for key, title in (("decode", "decode, tokens/s"), ("prefill", "prefill, tokens/s")):
        bars = [(kind, engine, median_of(rounds, key)) for kind, engines in results.items()
                for engine, rounds in engines.items()]
        bars = [bar for bar in bars if bar[2]]
        longest = max((bar[2] for bar in bars), default=1)
        parts.append(f'<text x="10" y="{y - 10}" font-weight="bold">{title}</text>')
        for kind, engine, value in bars:
            width = 420 * value / longest
            parts.append(f'<text x="10" y="{y + 12}">{kind} {engine}</text>'
                         f'<rect x="150" y="{y}" width="{width:.0f}" height="15" fill="{colours[engine]}"/>'
                         f'<text x="{155 + width:.0f}" y="{y + 12}">{value:.0f}</text>')
            y += 20
        y += 40
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="640" height="{y}" font-family="sans-serif" '
            f'font-size="12"><rect width="100%" height="100%" fill="white"/>' + "".join(parts) + "</svg>\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path("peers"))
    parser.add_argument("--worker", nargs=2, metavar=("ENGINE", "FILE"), help="measure one engine, in this process")
    arguments = parser.parse_args()
    if arguments.worker:
        return run_worker(arguments)
    arguments.out.mkdir(parents=True, exist_ok=True)
    files = {kind: gguf_of(arguments, kind) for kind in arguments.formats.split(",")}
    results = {kind: {engine: [] for engine in arguments.engines.split(",")} for kind in files}
    roofs = []
    for number in range(arguments.rounds):
        roofs.append(last_json([str(arguments.binary.parent / "cpu_roof"), str(arguments.threads)]))
        for kind, engines in results.items():
            for engine, rounds in engines.items():
                if rounds and "error" in rounds[0]:
                    continue
                rounds.append(measure(arguments, engine, str(files[kind])))
                print(f"round {number + 1}, {kind}, {engine}: {rounds[-1]}", flush=True)
    sizes = {kind: path.stat().st_size for kind, path in files.items()}
    rows = table_rows(results, roofs, sizes)
    report = {"arguments": {key: str(value) for key, value in vars(arguments).items()}, "file_bytes": sizes,
              "roofs": roofs, "results": results}
    (arguments.out / "peers.json").write_text(json.dumps(report, indent=1))
    (arguments.out / "peers.md").write_text(markdown(rows, roofs, arguments))
    (arguments.out / "peers.svg").write_text(svg(results))
    print(markdown(rows, roofs, arguments))


if __name__ == "__main__":
    main()
