#!/usr/bin/env python3
"""What scripts/gpu_check.sh keeps when its sections are cut off, and the bytes that it divides by.

usage: gpu_check_test.py SOURCES BUILD

Plays every section by `cuda_benchmark rehearse`, which writes rows until it is ended, and cuts it off at a
random time. Every row that was said to be written must be in the file and in the archive, whole.
"""

import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

SOURCES, BUILD = Path(sys.argv[1]), Path(sys.argv[2])
BENCHMARK = BUILD / "bin" / "cuda_benchmark"
SEEDS = 2


def check(condition, message):
    if not condition:
        sys.exit(f"gpu_check_test: {message}")


def whole_rows(text, name):
    """The rows whose line was finished; at most the last line is a part of one."""
    rows = [json.loads(line) for line in text.split("\n")[:-1]]
    check([row["index"] for row in rows] == list(range(len(rows))), f"{name}: a row is missing")
    return rows


def rehearse(seed):
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder)
        subprocess.run(["bash", SOURCES / "scripts/gpu_check.sh", "--dry-run", "--cut", str(seed), "--output", output],
                       check=True, env={"PATH": "/usr/bin:/bin", "REPRISE_GPU_CHECK_BUILD": str(BUILD)},
                       stdout=subprocess.DEVNULL)
        statuses = sorted(output.glob("*.status.json"))
        check(len(statuses) >= 10, f"{len(statuses)} sections")
        num_rows = 0
        for path in statuses:
            status = json.loads(path.read_text())
            name = status["section"]
            check(status["status"].startswith("cut off"), f"{name}: {status['status']}")
            rows_path = output / f"{name}.rows.jsonl"
            rows = whole_rows(rows_path.read_text(), name) if rows_path.exists() else []
            said = len(whole_rows((output / f"{name}.log").read_text(), f"{name}'s log"))
            # A row is on disk before it is printed, and the program may be ended between the two.
            check(said <= len(rows) <= said + 1, f"{name}: {said} rows were said to be written, {len(rows)} are there")
            num_rows += len(rows)
        check(num_rows > 50, f"{num_rows} rows: the sections were cut off before they began")
        with tarfile.open(output / "gpu-check.tar.gz") as archive:
            packed = {Path(member.name).name for member in archive.getmembers()}
            for path in statuses:
                check(path.name in packed, f"{path.name} is not in the archive")
            for path in output.glob("*.rows.jsonl"):
                text = archive.extractfile(f"gpu-check/{path.name}").read().decode()
                check(text == path.read_text(), f"{path.name} in the archive differs")
            check("report.md" in packed and "report.json" in packed, "no report in the archive")


def refuse_bad_options():
    for arguments in (["--only", "nothing"], ["--time-limit", "soon"], ["--section", "nothing"]):
        result = subprocess.run(["bash", SOURCES / "scripts/gpu_check.sh", "--dry-run", *arguments]
                                if arguments[0] != "--section" else
                                ["bash", SOURCES / "scripts/gpu_check.sh", *arguments], capture_output=True, check=False)
        check(result.returncode == 2, f"{arguments}: {result.returncode}")


def divide_by_what_is_read():
    # In the 8B model the embedding is not the head: of 8.03e9 parameters a step does not read 0.53e9.
    for name, gigabytes in (("0.5b", 0.99), ("1b", 2.48), ("8b", 15.04)):
        said = subprocess.run([BENCHMARK, "bytes", name], capture_output=True, text=True, check=True).stdout
        check(abs(float(said) / 1e9 - gigabytes) < 0.01, f"{name}: {said.strip()} bytes a step")


if not BENCHMARK.exists():
    sys.exit(f"gpu_check_test: {BENCHMARK} is not built")
divide_by_what_is_read()
refuse_bad_options()
for number in range(1, SEEDS + 1):
    rehearse(number)
