#!/usr/bin/env python3
"""Speed of Reprise and of other CPU engines on the same weights, interleaved in one run.

Every round runs each engine once per format and length of the prompt, one after the other, each in a process
of its own: --batch prompts of --prompt tokens (prefill), then --decode tokens of each. The weights are random,
of a real shape (tools/make_random_checkpoint.py); the GGUF files are made from the same folder
(tools/convert_to_gguf.py). A peer loads its weights once and sleeps while others are measured; Reprise is
started for every figure. build/release/bin/cpu_roof measures the peak of the matrix instructions once a round,
and the read bandwidth before and after each figure: a figure's share is that of its own two measurements.
peers.json, peers.md, peers.svg and readme.md (the table of the README) are written after every round.

    benchmarks/install_peers.sh     # the other engines, built for this machine; prints the command to use

vLLM has a virtual environment of its own, build/vllm (or --python vllm=PATH). Intel's OpenMP library is loaded
before it if it is installed there: vLLM's documentation asks for that. An engine that is not installed, or that
cannot read a format or run a batch, is left out with its reason.
"""

import argparse
import json
import os
import platform
import resource
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

from peer_engines import LOAD

ROOT = Path(__file__).resolve().parent.parent
ENGINES = ("reprise", "llama.cpp", "ik_llama.cpp", "openvino", "vllm")
FORMATS = ("bf16", "q8_0", "q4_0")  # --formats takes any type of tools/convert_to_gguf.py, and these:
QUANTIZED_WHILE_LOADING = ("int8", "int4", "fp8")
# Quantisation by Reprise -> the GGUF format whose file has nearly as many bytes.
BYTES_OF = {"int8": "q8_0", "int4": "q4_0", "fp8": "q8_0"}


# ------------------------------------------------------------------------------- one engine, one process


def run_worker(arguments) -> None:
    """Loads the engine, says so, then measures once for every line of the input."""
    engine, path = arguments.worker
    measure_once = LOAD[engine](path, arguments)
    print(json.dumps({"ready": engine}), flush=True)
    for line in sys.stdin:
        prefill, decode = measure_once(int(line))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(speeds(arguments, int(line), prefill, decode, peak)), flush=True)


def speeds(arguments, prompt: int, prefill: float, decode: float, rss_mb: float) -> dict:
    """From seconds for all prompts and for all tokens after them to tokens per second."""
    return {"prefill": arguments.batch * prompt / prefill,
            "decode": arguments.batch * arguments.decode / decode, "rss_mb": rss_mb}


def python_of(engine: str) -> str:
    """benchmarks/install_peers.sh gives vLLM a virtual environment of its own."""
    own = ROOT / "build/vllm/bin/python"
    return str(own) if engine == "vllm" and own.exists() else sys.executable


def environment_of(engine: str, python: str) -> dict:
    libraries = sorted(Path(python).parent.parent.glob("lib/libiomp5.so")) if engine == "vllm" else []
    return {**os.environ, **({"LD_PRELOAD": str(libraries[0])} if libraries else {})}


class Peer:
    """One engine with one file in a process of its own, which is asked for a figure whenever it is its turn."""

    def __init__(self, arguments, engine: str, path: str):
        python = dict(pair.split("=", 1) for pair in arguments.python).get(engine) or python_of(engine)
        command = [python, __file__, str(arguments.binary), str(arguments.folder), "--worker", engine, path]
        command += ["--prompt", ",".join(map(str, arguments.prompt))]
        for name in ("threads", "decode", "batch"):
            command += [f"--{name}", str(getattr(arguments, name))]
        command += [f"--{'' if arguments.ik_repack else 'no-'}ik-repack",
                    f"--{'' if arguments.ik_flash_attention else 'no-'}ik-flash-attention"]
        self.log = arguments.out / f"{engine}-{Path(path).stem}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                                            env=environment_of(engine, python))
        self.failure = self.answer().get("error")

    def answer(self) -> dict:
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        reason = self.log.read_text(errors="replace").strip().splitlines()
        return {"error": reason[-1][:200] if reason else f"exit status {self.process.wait()}"}

    def measure(self, prompt: int) -> dict:
        if self.failure:
            return {"error": self.failure}
        self.process.stdin.write(f"{prompt}\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def last_json(command: list[str]) -> dict:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in result.stdout.splitlines() if line.startswith("{")]
    if result.returncode != 0 or not lines:
        reason = (result.stderr or result.stdout).strip().splitlines()
        return {"error": reason[-1][:200] if reason else f"exit status {result.returncode}"}
    return json.loads(lines[-1])


def measure_reprise(arguments, path: str, kind: str, prompt: int) -> dict:
    """Medians of three batches of one process, after a batch as warm-up."""
    out = arguments.out / "latency.json"
    quantization = ["--quantization", kind] if kind in QUANTIZED_WHILE_LOADING else []
    command = [arguments.binary, "bench", "latency", path, "--input-len", str(prompt),
               "--output-len", str(arguments.decode + 1), "--batch-size", str(arguments.batch),
               "--num-iters-warmup", "1", "--num-iters", "3", "--no-enable-prefix-caching", "--temperature", "0",
               "--max-model-len", str(prompt + arguments.decode + 64),
               "--num-threads", str(arguments.threads), "--output-json", str(out),
               *quantization, *shlex.split(arguments.reprise_options)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)  # the usage of this child alone
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        lines = errors.strip().splitlines()
        return {"error": lines[-1][:200] if lines else f"exit status {process.returncode}"}
    measured = json.loads(out.read_text())
    prefill = measured["first_token_latencies"]
    decode = [whole - first for whole, first in zip(measured["latencies"], prefill)]
    return speeds(arguments, prompt, statistics.median(prefill), statistics.median(decode), usage.ru_maxrss / 1024)


def file_for(arguments, engine: str, kind: str) -> Path:
    """vLLM reads the folder itself, and so does Reprise when it quantises; the others read GGUF."""
    if kind in QUANTIZED_WHILE_LOADING:
        if engine != "reprise":
            raise NotImplementedError("a format of Reprise alone")
        return arguments.folder
    if engine != "vllm":
        return gguf_of(arguments, kind)
    if kind != "bf16":
        raise NotImplementedError("it has no fast path for GGUF on a CPU")
    return arguments.folder


class Entrant:
    """One engine with one format: its figures so far."""

    def __init__(self, arguments, engine: str, kind: str):
        self.arguments, self.engine, self.kind, self.peer = arguments, engine, kind, None
        self.rounds: dict = {prompt: [] for prompt in arguments.prompt}

    def measure(self, prompt: int, roofs: list[dict]) -> dict:
        """Measures the roof again behind the figure; the last one in the list was measured before it."""
        known = [figures for rounds in self.rounds.values() for figures in rounds if "error" in figures]
        if known:
            return known[0]
        try:
            path = str(file_for(self.arguments, self.engine, self.kind))
            if self.engine == "reprise":
                figures = measure_reprise(self.arguments, path, self.kind, prompt)
            else:
                self.peer = self.peer or Peer(self.arguments, self.engine, path)
                figures = self.peer.measure(prompt)
        except NotImplementedError as error:
            figures = {"error": str(error)}
        if "error" not in figures:
            roofs.append(measure_roof(self.arguments, "read"))
            around = [roof["read_gb_s"] for roof in roofs[-2:] if "read_gb_s" in roof]
            if around:
                figures["read_gb_s"] = statistics.mean(around)
        self.rounds[prompt].append(figures)
        return figures


def measure_roof(arguments, *what: str) -> dict:
    return last_json([str(arguments.binary.parent / "cpu_roof"), str(arguments.threads), *what])


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


def table_rows(results: dict, sizes: dict, batch: int) -> list[list[str]]:
    rows = []
    for kind, engines in results.items():
        for engine, prompts in engines.items():
            errors = [entry["error"] for rounds in prompts.values() for entry in rounds if "error" in entry]
            if errors:
                rows.append([kind, engine, "", "not measured: " + errors[0], "", "", ""])
                continue
            for prompt, rounds in prompts.items():
                if not rounds:
                    continue
                decode, prefill = median_of(rounds, "decode"), median_of(rounds, "prefill")
                spread = [entry["decode"] for entry in rounds]
                shares = [entry["decode"] / batch * sizes[kind] / 1e9 / entry["read_gb_s"]
                          for entry in rounds if entry.get("read_gb_s")]
                rows.append([kind, engine, str(prompt), f"{decode:.1f} ({min(spread):.1f} to {max(spread):.1f})",
                             f"{statistics.median(shares) if shares else 0:.2f}", f"{prefill:.0f}",
                             f"{median_of(rounds, 'rss_mb'):.0f}"])
    return rows


def readme_table(results: dict, prompts: list[int]) -> str:
    """Tokens per second, as the front page shows them: decoding behind the shortest prompt, then the prompts."""
    engines = [engine for engine in ENGINES if any(engine in of_kind for of_kind in results.values())]
    lengths = " and ".join(f"{prompt:,}" for prompt in prompts)
    lines = ["| weights, work | " + " | ".join(engines) + " |", "|---" * (len(engines) + 1) + "|"]
    for kind, of_kind in results.items():
        for work, key, wanted in (("decode", "decode", prompts[:1]), (f"prompt of {lengths}", "prefill", prompts)):
            cells = []
            for engine in engines:
                figures = [median_of(of_kind.get(engine, {}).get(prompt, []), key) for prompt in wanted]
                cells.append(", ".join(f"{value:,.1f}" if key == "decode" else f"{value:,.0f}"
                                       for value in figures if value is not None))
            lines.append(f"| {kind}, {work} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def markdown(rows: list[list[str]], roofs: list[dict], arguments) -> str:
    lines = [f"Random weights of {arguments.folder.name}, {arguments.threads} threads, {arguments.rounds} rounds, medians;",
             f"{arguments.batch} x {' or '.join(map(str, arguments.prompt))} tokens of prompt, then {arguments.decode} tokens each. "
             f"Machine: {platform.processor() or platform.machine()}.",
             ""]
    for key, name in (("read_gb_s", "read bandwidth, GB/s"), ("int8_tops", "peak of int8 products, TOP/s"),
                      ("bf16_tflops", "peak of bfloat16 products, TFLOP/s")):
        if median_of(roofs, key):
            lines.append(f"- {name}: {median_of(roofs, key):.2f}")
    lines += ["", "| weights | engine | prompt | decode, tokens/s | share of the bandwidth | prefill, tokens/s | peak RSS, MB |",
              "|---|---|---|---|---|---|---|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def svg(results: dict) -> str:
    """Two groups of bars, decode and prefill, one bar per format and engine."""
    colours = dict(zip(ENGINES, ("#2a6fdb", "#d9822b", "#8a5fbf", "#3a9d6a", "#b23a48")))
    parts, y = [], 40
    for key, title in (("decode", "decode, tokens/s"), ("prefill", "prefill, tokens/s")):
        bars = [(kind, engine if len(prompts) == 1 else f"{engine}, {prompt}", median_of(rounds, key))
                for kind, engines in results.items() for engine, prompts in engines.items()
                for prompt, rounds in prompts.items()]
        bars = [bar for bar in bars if bar[2]]
        longest = max((bar[2] for bar in bars), default=1)
        parts.append(f'<text x="10" y="{y - 10}" font-weight="bold">{title}</text>')
        for kind, engine, value in bars:
            width = 420 * value / longest
            parts.append(f'<text x="10" y="{y + 12}">{kind} {engine}</text>'
                         f'<rect x="150" y="{y}" width="{width:.0f}" height="15" fill="{colours[engine.split(",")[0]]}"/>'
                         f'<text x="{155 + width:.0f}" y="{y + 12}">{value:.0f}</text>')
            y += 20
        y += 40
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="640" height="{y}" font-family="sans-serif" '
            f'font-size="12"><rect width="100%" height="100%" fill="white"/>' + "".join(parts) + "</svg>\n")


def write_report(arguments, entrants: list[Entrant], roofs: list[dict]) -> str:
    results: dict = {}
    for entrant in entrants:
        results.setdefault(entrant.kind, {})[entrant.engine] = entrant.rounds
    sizes = {kind: gguf_of(arguments, BYTES_OF.get(kind, kind)).stat().st_size for kind in results}
    text = markdown(table_rows(results, sizes, arguments.batch), roofs, arguments)
    shown = {key: str(value) for key, value in vars(arguments).items()}
    report = {"arguments": shown, "file_bytes": sizes, "roofs": roofs, "results": results}
    (arguments.out / "peers.json").write_text(json.dumps(report, indent=1))
    (arguments.out / "peers.md").write_text(text)
    (arguments.out / "peers.svg").write_text(svg(results))
    (arguments.out / "readme.md").write_text(readme_table(results, arguments.prompt))
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--python", action="append", default=[], metavar="ENGINE=PATH", help="interpreter of an engine")
    parser.add_argument("--reprise-options", default="", metavar="OPTIONS", help="more options of Reprise")
    parser.add_argument("--ik-repack", action=argparse.BooleanOptionalAction, default=True,
                        help="ik_llama.cpp packs weights while loading")
    parser.add_argument("--ik-flash-attention", action=argparse.BooleanOptionalAction, default=True,
                        help="ik_llama.cpp uses its flash attention")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--prompt", type=lambda text: sorted(map(int, text.split(","))), default=[512], metavar="N[,N...]",
                        help="tokens of a prompt; several numbers are measured one after the other")
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path("peers"))
    parser.add_argument("--worker", nargs=2, metavar=("ENGINE", "FILE"), help="measure one engine, in this process")
    arguments = parser.parse_args()
    if arguments.worker:
        return run_worker(arguments)
    arguments.out.mkdir(parents=True, exist_ok=True)
    entrants = [Entrant(arguments, engine, kind)
                for kind in arguments.formats.split(",") for engine in arguments.engines.split(",")]
    roofs: list[dict] = []
    for number in range(arguments.rounds):
        roofs.append(measure_roof(arguments))
        for prompt in arguments.prompt:
            for entrant in entrants:
                print(f"round {number + 1}, prompt {prompt}, {entrant.kind}, {entrant.engine}: "
                      f"{entrant.measure(prompt, roofs)}", flush=True)
        text = write_report(arguments, entrants, roofs)
    for entrant in entrants:
        if entrant.peer:
            entrant.peer.close()
    print(text)


if __name__ == "__main__":
    main()
