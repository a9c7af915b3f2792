#!/usr/bin/env python3
"""Rows of the table mode x level x backend x speculation x adapters x model x ranks under --strict-graphs.

    strict_table_test.py REPRISE_BINARY MODEL_FOLDER [--rows N] [--seed N] [--all] [--table]

Each row is an engine that is started with --strict-graphs and answers prompts. It either keeps its promise: no step
leaves the plan, the counters of its graphs fit its mode, and its tokens are those of the same engine without graphs.
Or its start is refused by a sentence that names an option of the row. --table prints a line for each row; ctest runs a
few rows, drawn by the seed. Uses only Python's standard library.
"""

import argparse
import collections
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import architectures_test
from lora_serve_test import write_adapter

ROOT = Path(__file__).resolve().parent.parent.parent
ARGUMENTS = None
TIMEOUT = 300
PROMPTS = ("Once upon a time there was a fox who had a boat", "7", "The little fox", "Tom has 3 apples")

MODES = (None, "NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE", "FULL_AND_FULL")
LEVELS = (0, 3)
BACKENDS = (("FLASH_ATTN", 3), ("FLASH_ATTN", 2), ("TRITON_ATTN", None), ("FLASHINFER", None), ("REFERENCE", None))
SPECULATIONS = (None, "ngram", "draft_model", "eagle3")
MODELS = ("bundled", "bamba", "qwen3-next")  # Mamba-2 states, and a delta net's states beside attention
RANKS = ((), ("-tp", "2"), ("-pp", "2"), ("-dp", "2"), ("-dp", "2", "--data-parallel-lockstep"))

Row = collections.namedtuple("Row", "mode level backend speculation has_adapters model ranks")


def all_rows():
    """Every row; a draft model or head has the tokens of the bundled model."""
    rows = itertools.starmap(Row, itertools.product(MODES, LEVELS, BACKENDS, SPECULATIONS, (False, True), MODELS, RANKS))
    return [row for row in rows if row.model == "bundled" or row.speculation in (None, "ngram")]


def some_rows(count, seed):
    """Half of the rows depart from the bundled model on one rank in one way at most, since most others are refused."""
    dice = random.Random(seed)
    plain = [row for row in all_rows() if sum(map(bool, (row.speculation, row.has_adapters, row.model != "bundled", row.ranks))) <= 1]
    return dice.sample(plain, (count + 1) // 2) + dice.sample(all_rows(), count // 2)


class Table(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.models = {"bundled": ARGUMENTS.model}
        for name in MODELS[1:]:
            shutil.copytree(ROOT / "tests/goldens/architectures" / name, cls.folder / name)
            architectures_test.write_tokenizer(cls.folder / name)
            cls.models[name] = str(cls.folder / name)
        cls.adapter = write_adapter(cls.folder / "fox", 1)
        cls.expected = {}

    def generate(self, model, *options):
        prompts = [word for prompt in PROMPTS for word in ("--prompt", prompt)]
        command = [ARGUMENTS.binary, "generate", model, *prompts, "--max-tokens", "12", "--temperature", "0", "--json", "--dtype", "float32",
                   "--device", "cpu", "--num-threads", "1", "--max-num-seqs", "4", "--max-num-batched-tokens", "64", "--max-model-len", "96",
                   "--kv-cache-memory-bytes", "8M", *options]
        # The ranks of a process share its terminal, and one rank may end before another.
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, env={**os.environ, "VLLM_LOGGING_LEVEL": "WARNING"})

    def tokens_of(self, done):
        outputs = json.loads(done.stdout)["outputs"]
        self.assertEqual([output["error"] for output in outputs], [None] * len(outputs))
        return [output["token_ids"] for output in outputs]

    def expected_of(self, row):
        """The tokens of the model and its adapter without graphs, compiler and ranks."""
        adapters = tuple(self.adapter_options(row))
        if (row.model, adapters) not in self.expected:
            done = self.generate(self.models[row.model], *adapters, "-cc", json.dumps({"mode": 0, "cudagraph_mode": "NONE"}))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.expected[row.model, adapters] = self.tokens_of(done)
        return self.expected[row.model, adapters]

    def adapter_options(self, row):
        """The adapter fits the bundled model; the others have the adapter paths of their layers only."""
        if not row.has_adapters:
            return []
        if row.model != "bundled":
            return ["--enable-lora"]
        return ["--enable-lora", "--lora-modules", f"fox={self.adapter}", "--lora", "fox"]

    def options_of(self, row):
        compilation = {"mode": row.level, "max_cudagraph_capture_size": 64} | ({"cudagraph_mode": row.mode} if row.mode else {})
        options = ["--strict-graphs", "-cc", json.dumps(compilation), "--attention-backend", row.backend[0], *row.ranks]
        if row.backend[1]:
            options += ["--flash-attn-version", str(row.backend[1])]
        if row.speculation:
            speculation = {"method": row.speculation, "num_speculative_tokens": 2}
            if row.speculation == "draft_model":
                speculation["model"] = ARGUMENTS.model
            elif row.speculation == "eagle3":
                speculation["model"] = str(ROOT / "models/reprise-tiny-eagle3")
            options += ["--speculative-config", json.dumps(speculation)]
        return options + self.adapter_options(row)

    def check_counters(self, row, graphs):
        """That replays and eager steps are those of the mode. No batch of the prompts is larger than the largest graph."""
        full, piecewise = (graphs["modes"][mode]["replayed_steps"] for mode in ("FULL", "PIECEWISE"))
        mode = graphs["cudagraph_mode"]
        if row.mode:
            self.assertEqual(mode, row.mode)
        self.assertEqual(full > 0, mode.startswith("FULL"), graphs)
        if mode in ("FULL", "NONE", "FULL_DECODE_ONLY", "FULL_AND_FULL"):
            self.assertEqual(piecewise, 0, graphs)
        if mode in ("PIECEWISE", "FULL_AND_PIECEWISE"):
            self.assertGreater(piecewise, 0, graphs)
        if mode in ("FULL", "PIECEWISE", "FULL_AND_PIECEWISE", "FULL_AND_FULL"):
            self.assertEqual(graphs["eager_steps"], 0, graphs)

    def names_of(self, row):
        """What a refusal of the row may name."""
        names = ["--strict-graphs", "cudagraph_mode", "--attention-backend"]
        return names + ["--enable-lora"] * row.has_adapters + ["--speculative-config"] * bool(row.speculation) + list(row.ranks[-1:])

    def outcome(self, row):
        done = self.generate(self.models[row.model], *self.options_of(row))
        if done.returncode != 0:
            message = done.stderr.strip().splitlines()[-1]
            self.assertEqual(done.returncode, 2, done.stderr)  # refused before the work begins, not by a failed step
            self.assertTrue(any(name in message for name in self.names_of(row)), done.stderr)
            return "refused: " + message.removeprefix("reprise: ")
        # A warning about a graph would mean a slow path without an error.
        self.assertNotRegex(done.stderr, "(?i)eager|retired|quarantined|falls back")
        self.assertEqual(self.tokens_of(done), self.expected_of(row))
        self.check_counters(row, json.loads(done.stdout)["graphs"])
        return "kept"

    def test_rows_keep_their_promise_or_are_refused_by_name(self):
        rows = all_rows() if ARGUMENTS.all else some_rows(ARGUMENTS.rows, ARGUMENTS.seed)
        counts = collections.Counter()
        for row in rows:
            with self.subTest(row=row):
                outcome = self.outcome(row)
                counts[outcome.partition(":")[0]] += 1
                if ARGUMENTS.table:
                    print("| " + " | ".join(str(part) for part in row) + f" | {outcome} |", flush=True)
        print(dict(counts), "of", len(all_rows()), file=sys.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="all rows, some minutes")
    parser.add_argument("--table", action="store_true")
    ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
