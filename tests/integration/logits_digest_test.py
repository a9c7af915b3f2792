#!/usr/bin/env python3
"""The logits of the bundled model have the bits that tests/goldens/logits_digests.json records.

    logits_digest_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER BINARY_WITH_AMX_SOFTWARE [--update]

For each instruction set, cudagraph mode and compile level the program answers the same requests. A digest covers
the tokens and every bit of 20 log-probabilities per position, of prompts and of answers. A change of the engine
that should not change results leaves the digests as they are; --update records new ones. Uses only Python's
standard library.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY = MODEL = GOLDENS = WITH_AMX_SOFTWARE = None
MODES = ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")
LEVELS = (0, 1, 2, 3)
# Instruction sets and data types. The first pair runs every mode and level; the others only FULL_AND_PIECEWISE.
ARITHMETIC = (("avx2", "bfloat16"), ("avx2", "float32"), ("avx2", "float16"), ("scalar", "bfloat16"),
              ("amx", "bfloat16"), ("amx_software", "bfloat16"))
PROMPTS = ("Once upon a time", "One day, a small dog", "Bella has 40 dollars. She buys 5 buttons", "The")


def requests():
    body = {"temperature": 0, "max_tokens": 24, "logprobs": 20, "prompt_logprobs": 5, "ignore_eos": True}
    return [
        {"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": {"prompt": prompt, **body}}
        for i, prompt in enumerate(PROMPTS)
    ]


def cells():
    for isa, dtype in ARITHMETIC:
        everything = (isa, dtype) == ARITHMETIC[0]
        for mode in MODES if everything else MODES[-1:]:
            for level in LEVELS if everything else (0, 3):
                yield isa, dtype, mode, level


def digest(isa, dtype, mode, level):
    """None where this machine lacks the instruction set."""
    with tempfile.TemporaryDirectory(prefix="reprise_digest_") as name:
        folder = Path(name)
        (folder / "in").write_text("".join(json.dumps(request) + "\n" for request in requests()))
        config = json.dumps({"mode": level, "cudagraph_mode": mode})
        run = subprocess.run(
            [WITH_AMX_SOFTWARE if isa == "amx_software" else BINARY, "run-batch", MODEL, "-i", folder / "in", "-o", folder / "out", "--cpu-isa", isa, "--dtype", dtype,
             "--compilation-config", config, "--disable-compile-cache", "--device", "cpu"],
            capture_output=True, text=True, timeout=300)
        if isa != "amx_software" and "cannot run here" in run.stderr:
            return None
        assert run.returncode == 0, run.stderr
        answers = [json.loads(line) for line in (folder / "out").read_text().splitlines()]
    answers.sort(key=lambda answer: answer["custom_id"])
    choices = [answer["response"]["body"]["choices"] for answer in answers]
    return hashlib.sha256(json.dumps(choices, sort_keys=True).encode()).hexdigest()[:16]


class LogitsDigest(unittest.TestCase):
    def test_every_mode_and_level_has_the_recorded_bits(self):
        recorded = json.loads(GOLDENS.read_text())
        for cell in cells():
            with self.subTest(cell=cell):
                found = digest(*cell)
                if found is not None:
                    self.assertEqual(found, recorded[" ".join(map(str, cell))])


if __name__ == "__main__":
    BINARY, MODEL, SOURCE, WITH_AMX_SOFTWARE = sys.argv[1:5]
    GOLDENS = Path(SOURCE) / "tests" / "goldens" / "logits_digests.json"
    if "--update" in sys.argv[5:]:
        old = json.loads(GOLDENS.read_text())
        keys = {cell: " ".join(map(str, cell)) for cell in cells()}
        new = {key: digest(*cell) or old[key] for cell, key in keys.items()}  # what runs elsewhere stays
        GOLDENS.write_text(json.dumps(new, indent=1) + "\n")
    else:
        unittest.main(argv=sys.argv[:1])
