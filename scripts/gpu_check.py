#!/usr/bin/env python3
"""Runs the sections of gpu_check.sh within a limit of time and keeps everything that they had written.

usage: gpu_check.py [--time-limit SECONDS] [--output DIR] [--only SECTION] [--build DIR]
                    [--dry-run [--cut SEED]]

Each section gets its own limit or what is left of the whole, whichever is less; then all its processes
end. Results are rows of JSON, one per line, which programs write as they measure. After each section
DIR has the rows so far, the logs, a report (report.json, report.md) and all of that in one archive,
gpu-check.tar.gz. Sections that passed are skipped as long as the sources are the same.

--dry-run says what each section proves and runs. With --cut, each section is played by a program that
writes rows without a GPU, and is cut off at a random time: what was flushed must be there.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import gpu_check_report

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("CMakeLists.txt", "benchmarks", "cmake", "scripts", "src", "tests")
# Time for the report, for the archive, and for ending a section that does not stop by itself.
MARGIN_SECONDS = 12
SHORTEST_SECTION_SECONDS = 5


@dataclasses.dataclass(frozen=True)
class Section:
    name: str
    seconds: int  # at most
    proves: str
    command: str  # {bin}: the programs; {rows}: the file of its rows; {limit}: its seconds


SECTIONS = (
    Section("build", 170, "the plug-in, the tests and the benchmark build for sm_90a with the compilers of this "
            "machine", "bash scripts/gpu_check.sh --section build"),
    Section("conformance", 15, "the device passes every case of the device conformance suite on the GPU",
            "{bin}/cuda_device_conformance_test --gtest_filter=*/cuda"),
    Section("oracles", 45, "products, attention and sampling agree with the CPU's reference functions, at the shapes of "
            "real models first: head size 128 and 64, hidden 4096, vocabulary 152k",
            "{bin}/cuda_executor_test --gtest_filter=*Shapes*:-*Streamed*:*FlashInfer* && {bin}/cuda_row_sampler_test && "
            "{bin}/cuda_executor_test --gtest_filter=-*Shapes*:*Streamed*:*FlashInfer*:*CudaLatent*:*CudaHeadProducts*"),
    # Sections of their own, because a wrong barrier of these kernels would not end.
    Section("attention", 50, "FlashInfer's attention, if it was built in, and latent attention agree with the CPU's reference "
            "functions; their times beside those of the project's own and of the plain kernels (predicted: docs/gpu-figures.md)",
            "{bin}/cuda_executor_test --gtest_filter=*CudaFlashInfer*:*CudaLatent*:*CudaHeadProducts* && "
            "{bin}/cuda_benchmark attention {rows}"),
    Section("streamed", 60, "kernels whose weights arrive by bulk copies have the bits of the usual ones; both for 1 and 8 "
            "rows, 0.5B, 1B and 8B, 7B in int4_g128, 8B in float8, experts of 30B, and rows quantised by the product beside rows quantised before it; beside the "
            "prediction of benchmarks/card_model.py",
            "{bin}/cuda_executor_test --gtest_filter=*Streamed* && {bin}/cuda_benchmark streamed {rows} {limit}"),
    Section("parts", 25, "decode attention against the bandwidth of a kernel that only reads (batch 1 at 32k, batch 32 at "
            "4k); attention of a prompt; the peak of large products; time of an update",
            "{bin}/cuda_benchmark parts {rows}"),
    Section("sampling", 15, "time to sample a token from 152k logits: greedy, temperature, and Qwen's own generation "
            "config, for 1, 8, 64 and 256 rows", "{bin}/cuda_benchmark sampling {rows}"),
    Section("replay", 60, "replay equals eager bit for bit: 5 modes x 4 levels x 4 mixes x 18 sizes; 1,000 replays take no "
            "memory; logits equal the CPU's; the same after sleep",
            "{bin}/cuda_engine_test && {bin}/cuda_sleep_test"),
    Section("models", 20, "a tiny checkpoint of every architecture: logits within 1e-4 of Transformers, and replay equals "
            "eager", "{bin}/cuda_architectures_test"),
    Section("ranks", 45, "exchanges by NCCL have the bits of the CPU's sums; engines of 2 and 4 ranks: logits of one rank, replay "
            "equals eager, a lost rank is named. Skips what needs more GPUs than there are",
            "{bin}/nccl_ranks_test --gtest_filter=RankOps* && {bin}/cuda_rank_engines_test"),
    Section("bench-1b", 40, "tokens/s, host time per step, capture time and share of bandwidth by mode, with programmatic "
            "dependent launch and without, 1B shape", "{bin}/cuda_benchmark 1b {rows} {limit}"),
    Section("bench-8b", 70, "the same, 8B shape, and 4,096 tokens of prefill against the peak of large products",
            "{bin}/cuda_benchmark 8b {rows} {limit}"),
    Section("bench-0.5b", 30, "the same, 0.5B shape", "{bin}/cuda_benchmark 0.5b {rows} {limit}"),
    Section("serving", 45, "100 requests of ~230 in and ~215 out, 20 a second, sampled with Qwen's own generation config, "
            "on the engine: PIECEWISE, FULL, FULL_AND_PIECEWISE, 1B shape", "{bin}/cuda_benchmark serving {rows}"),
    Section("sanitizer", 40, "compute-sanitizer's memcheck finds nothing in a small engine's kernels, eager and replayed, "
            "with programmatic dependent launch", "bash scripts/gpu_check.sh --section sanitizer"),
    Section("transformers", 25, "decoding against transformers with a static cache and torch.compile(mode=reduce-overhead); "
            "says 'skipped' where there is no torch",
            "python3 benchmarks/compare_transformers_cuda.py {bin}/cuda_benchmark {rows} --seconds 10"),
    Section("tune", 40, "kernels of products chosen by measurement: which choices differ from the rules, and steps with both "
            "beside the prediction (docs/gpu-figures.md): 22 to 31 % with one request", "{bin}/cuda_benchmark tune {rows} {limit}"),
)


def hash_of_sources():
    digest = hashlib.sha256()
    for name in SOURCES:
        top = ROOT / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


class Check:
    def __init__(self, arguments):
        self.arguments = arguments
        self.output = Path(arguments.output).resolve()
        self.start = time.monotonic()
        self.child = None
        self.was_interrupted = False

    def left(self):
        return self.arguments.time_limit - MARGIN_SECONDS - (time.monotonic() - self.start)

    def forget_other_sources(self):
        mark = self.output / "sources.sha256"
        current = hash_of_sources()
        if mark.exists() and mark.read_text() == current:
            return
        for path in self.output.glob("*"):
            if path.is_file() and path.suffix != ".gz":
                path.unlink()
        mark.write_text(current)

    def has_passed(self, section):
        path = self.output / f"{section.name}.status.json"
        return path.exists() and json.loads(path.read_text())["status"] == "passed"

    def run(self, section, command, limit):
        """Ends with the section's status written and none of its processes left."""
        rows, log = self.output / f"{section.name}.rows.jsonl", self.output / f"{section.name}.log"
        rows.unlink(missing_ok=True)
        begin = time.monotonic()
        with log.open("wb") as sink:
            # The section runs in a session of its own, so that all processes that it starts belong to one group.
            self.child = subprocess.Popen(["bash", "-c", command], cwd=ROOT, stdout=sink, stderr=subprocess.STDOUT,
                                          start_new_session=True)
            try:
                code = self.child.wait(timeout=limit)
                status = "passed" if code == 0 else f"failed with {code}"
            except subprocess.TimeoutExpired:
                status = f"cut off after {limit:.1f} s"
        self.end_child()
        if self.was_interrupted:
            status = "interrupted"
        write_whole(self.output / f"{section.name}.status.json", json.dumps(
            {"section": section.name, "status": status, "seconds": round(time.monotonic() - begin, 1)}) + "\n")
        print(f"== {section.name}: {status}, {time.monotonic() - begin:.1f} s", flush=True)
        self.pack()
        return status

    def end_child(self):
        if self.child is None:
            return
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.child.pid, signal_number)
            except ProcessLookupError:
                break
            try:
                self.child.wait(timeout=1)
            except subprocess.TimeoutExpired:
                continue
        self.child.wait()
        self.child = None

    def interrupt(self, *_):
        """What is there is kept even if the script itself is cut off."""
        self.was_interrupted = True
        if self.child is not None:
            os.killpg(self.child.pid, signal.SIGKILL)

    def pack(self):
        gpu_check_report.write_report(self.output)
        archive = self.output / "gpu-check.tar.gz"
        partial = self.output / "gpu-check.tar.gz.partial"
        with tarfile.open(partial, "w:gz", compresslevel=1) as tar:
            for path in sorted(self.output.iterdir()):
                if path.is_file() and path not in (archive, partial):
                    tar.add(path, arcname=f"gpu-check/{path.name}")
        partial.replace(archive)


def write_whole(path, text):
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    partial.replace(path)


def command_of(section, check, limit):
    programs = Path(check.arguments.build).resolve() / "bin"
    rows = check.output / f"{section.name}.rows.jsonl"
    return section.command.format(bin=programs, rows=rows, limit=max(int(limit * 0.9), 1))


def say_sections(check):
    for section in SECTIONS:
        print(f"{section.name:<12} at most {section.seconds:>3} s  {section.proves}")
        print(f"{'':<12}   runs: {command_of(section, check, section.seconds)}")
    total = sum(section.seconds for section in SECTIONS)
    print(f"{'all':<12} at most {total:>3} s, {MARGIN_SECONDS} s of --time-limit {check.arguments.time_limit} are kept for "
          "the report")


def rehearse(check, seed):
    """Every section is cut off somewhere between its first rows and its last ones."""
    at_random = random.Random(seed)
    check.output.mkdir(parents=True, exist_ok=True)
    for section in SECTIONS:
        rows = check.output / f"{section.name}.rows.jsonl"
        check.run(section, f"{Path(check.arguments.build).resolve()}/bin/cuda_benchmark rehearse {rows}",
                  at_random.uniform(0.02, 0.5))
    return 0


def measure(check):
    signal.signal(signal.SIGTERM, check.interrupt)
    signal.signal(signal.SIGINT, check.interrupt)
    check.output.mkdir(parents=True, exist_ok=True)
    check.forget_other_sources()
    has_failed = False
    for section in SECTIONS:
        if check.arguments.only not in (None, section.name) or check.was_interrupted:
            continue
        if check.arguments.only is None and check.has_passed(section):
            print(f"== {section.name} passed before", flush=True)
            continue
        limit = min(section.seconds, check.left())
        if limit < SHORTEST_SECTION_SECONDS:
            print(f"== {section.name}: no time is left for it", flush=True)
            has_failed = True
            continue
        print(f"== {section.name}, at most {limit:.0f} s", flush=True)
        if check.run(section, command_of(section, check, limit), limit) != "passed":
            has_failed = True
            print((check.output / f"{section.name}.log").read_text(errors="replace")[-2000:], flush=True)
            if section.name == "build":
                break
    print((check.output / "report.md").read_text() if (check.output / "report.md").exists() else "", flush=True)
    return 1 if has_failed or check.was_interrupted else 0


def main():
    parser = argparse.ArgumentParser(prog="scripts/gpu_check.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--time-limit", type=float, default=600, help="seconds for everything (%(default)s)")
    parser.add_argument("--output", default="build/gpu-check/results", help="folder of rows, logs, report and archive")
    parser.add_argument("--build", default=os.environ.get("REPRISE_GPU_CHECK_BUILD", "build/gpu-check"))
    parser.add_argument("--only", choices=[section.name for section in SECTIONS], help="one section, even if it passed")
    parser.add_argument("--dry-run", action="store_true", help="say what would run")
    parser.add_argument("--cut", type=int, metavar="SEED", help="with --dry-run: play all sections and cut them off")
    arguments = parser.parse_args()
    check = Check(arguments)
    if arguments.dry_run and arguments.cut is None:
        say_sections(check)
        return 0
    return rehearse(check, arguments.cut) if arguments.dry_run else measure(check)


if __name__ == "__main__":
    sys.exit(main())
