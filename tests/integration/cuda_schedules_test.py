#!/usr/bin/env python3
"""The tests over the fake CUDA driver, with its work done at random times.

usage: cuda_schedules_test.py BIN_DIR [--schedules N] [--first N] [--whole] [--shards N]

Each schedule is a number from which the fake driver draws the calls at which queued work runs. Without
--whole a few fast tests of the larger programs run. With --whole all tests of all programs run, some three
minutes a schedule. --shards N divides the tests of each program into N parts of which a schedule runs one, the
next schedule the next one: after N schedules every test has run once.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

# The programs, with the tests of each that run without --whole. None: all tests; "": no test.
PROGRAMS = {
    "cuda_device_test": None,
    "cuda_device_conformance_test": None,
    "gemm_library_test": None,
    "cuda_input_batch_test": None,
    "cuda_row_sampler_test": "*logits_are*:*says_why*:*ties*",
    "cuda_sleep_test": "*no_request_waits*:*level_1_compilation_3*",
    "cuda_engine_test": "*tokens_are_the_same*:*in_flight*:*FULL_AND_PIECEWISE_level_0*",
    "cuda_row_kernels_test": "",
    "cuda_source_test": "",
    "cuda_executor_test": "*parts_are_merged_when*",
}


def run_program(path, chosen, schedule, shards):
    """Its output, if it failed."""
    shard = {} if shards == 1 else {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(schedule % shards)}
    result = subprocess.run([path, f"--gtest_filter={chosen}", "--gtest_brief=1"],
                            env=os.environ | shard | {"REPRISE_FAKE_SCHEDULE": str(schedule)}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return result.stdout if result.returncode != 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin_dir", type=Path)
    parser.add_argument("--schedules", type=int, default=2)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=list(PROGRAMS), choices=list(PROGRAMS), metavar="PROGRAM")
    options = parser.parse_args()
    failures = 0
    for schedule in range(options.first, options.first + options.schedules):
        for program in options.only:
            chosen = "*" if options.whole or PROGRAMS[program] is None else PROGRAMS[program]
            if not chosen:
                continue
            output = run_program(options.bin_dir / program, chosen, schedule, options.shards)
            if output is not None:
                failures += 1
                print(f"{output}\nREPRISE_FAKE_SCHEDULE={schedule} {program} fails", flush=True)
        print(f"schedule {schedule}: {'all programs pass' if failures == 0 else f'{failures} failures so far'}",
              flush=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
