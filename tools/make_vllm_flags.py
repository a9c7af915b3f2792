#!/usr/bin/env python3
"""Writes tests/goldens/vllm_serve_flags.txt: the flags of `vllm serve`, from an installed vLLM.

    python tools/make_vllm_flags.py

A test of the command line reads that file: every flag there is an option of `reprise serve`, or one of the flags that
are accepted without effect or refused with a reason.
"""

import pathlib

import vllm
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

ROOT = pathlib.Path(__file__).resolve().parent.parent
SEVERAL = ("+", "*")


def lines():
    """One line for each name of a flag: "--name", and "..." after it if the flag takes several values."""
    for action in make_arg_parser(FlexibleArgumentParser())._actions:
        for name in action.option_strings:
            if name.startswith("--") and name != "--help":
                yield f"{name} ..." if action.nargs in SEVERAL else name


if __name__ == "__main__":
    path = ROOT / "tests" / "goldens" / "vllm_serve_flags.txt"
    path.write_text(f"# vLLM {vllm.__version__}\n" + "".join(line + "\n" for line in sorted(set(lines()))))
