#!/usr/bin/env python3
"""Measures the processor time that a target's sources cost the compiler.

usage: benchmarks/build_time.py BUILD_FOLDER TARGET [--only REGEX] [--json FILE]

Compiles every object of the target again, one after the other, without ccache and with the build's own command, and adds
up user and system time. Other work on the machine hardly changes this sum, unlike the time on the clock. The build's
own objects stay as they are. The precompiled headers must exist: `ninja -C BUILD_FOLDER TARGET` has made them.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path


def compiles(build, target):
    """Object path -> command of its compiler, in the order in which ninja would run them."""
    text = subprocess.run(["ninja", "-C", build, "-t", "commands", target], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in text.splitlines():
        words = shlex.split(line) if " -c " in line else []
        if "-o" in words and "-c" in words:
            first = next(at for at, word in enumerate(words) if re.search(r"(\+\+|cc)(-[0-9]+)?$", word))
            found[words[words.index("-o") + 1]] = words[first:]
    return found


def seconds(command, build, folder):
    """Processor time of one compile."""
    command = list(command)
    name = str(folder / "object.o")
    for option in ("-o", "-MF"):
        if option in command:
            command[command.index(option) + 1] = name if option == "-o" else name + ".d"
    process = subprocess.Popen(command, cwd=build)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"this command failed: {shlex.join(command)}")
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("target")
    parser.add_argument("--only", default="", metavar="REGEX", help="only the objects whose path matches")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write object -> seconds")
    options = parser.parse_args()
    measured = {}
    with tempfile.TemporaryDirectory() as folder:
        for path, command in compiles(options.build, options.target).items():
            if re.search(options.only, path):
                measured[path] = seconds(command, options.build, Path(folder))
                print(f"{measured[path]:8.1f}  {path}", flush=True)
                if options.json:
                    options.json.write_text(json.dumps(measured, indent=1) + "\n")
    print(f"{sum(measured.values()):8.1f}  seconds of processor time for {len(measured)} objects")


if __name__ == "__main__":
    main()
