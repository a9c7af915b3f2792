#!/usr/bin/env python3
"""The tests over the fake CUDA driver, with its work done at random times.

usage: cuda_schedules_test.py SCHEDULES PROGRAM[=FILTER] ...

REPRISE_FAKE_SCHEDULES in the environment replaces SCHEDULES, the number of schedules: 100 takes an hour.
REPRISE_FAKE_FIRST_SCHEDULE is the first one's number. Without a filter a program runs all its tests.
"""

import os
import subprocess
import sys

first = int(os.environ.get("REPRISE_FAKE_FIRST_SCHEDULE", "1"))
count = int(os.environ.get("REPRISE_FAKE_SCHEDULES", sys.argv[1]))
for schedule in range(first, first + count):
    for word in sys.argv[2:]:
        program, _, chosen = word.partition("=")
        result = subprocess.run([program, f"--gtest_filter={chosen or '*'}", "--gtest_brief=1"],
                                env=os.environ | {"REPRISE_FAKE_SCHEDULE": str(schedule)}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if result.returncode != 0:
            sys.exit(f"{result.stdout}\nREPRISE_FAKE_SCHEDULE={schedule} {program} fails")
    print(f"schedule {schedule}: all {len(sys.argv) - 2} programs pass", flush=True)
