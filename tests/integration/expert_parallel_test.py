#!/usr/bin/env python3
"""Experts that are divided among processes: the tokens of one rank, in every mode, and what is refused.

    expert_parallel_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER

The models are those of tests/goldens/architectures, whose tokens Transformers computed. Uses only Python's standard library.
"""

import json
import sys
import unittest
from pathlib import Path

import architectures_test
from architectures_test import run

MODES = ["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"]
# qwen3-moe has 5 experts, which neither 2 nor 4 ranks divide evenly.
NAMES = ["qwen3-moe", "mixtral", "deepseek-v2"]
COMMON = ["--num-threads", 1, "--kv-cache-memory-bytes", "16M", "--enable-expert-parallel"]
TCP = ["--distributed-executor-backend", "mp"]


class ExpertParallel(architectures_test.GoldenModels):
    def test_every_mode_gives_the_tokens_of_transformers(self):
        for name in NAMES:
            cases = self.copy_of(name)
            for sizes in (["-tp", 2], ["-tp", 4, *TCP], ["-dp", 2, *TCP]):
                for mode in MODES:
                    with self.subTest(name=name, sizes=sizes, mode=mode):
                        done = self.generate(cases, *COMMON, *sizes, "-cc.cudagraph_mode", mode)
                        # Latent attention has no graph of mixed batches, so another mode is expected.
                        expected = "FULL_AND_PIECEWISE" if (name, mode) == ("deepseek-v2", "FULL") else mode
                        self.assertEqual(json.loads(done.stdout)["graphs"]["cudagraph_mode"], expected)

    def test_more_families_and_sizes_give_the_tokens_of_transformers(self):
        for name in ("deepseek-v3", "deepseek-v2-lite", "gpt-oss", "llama4", "granite-moe", "qwen2-moe", "glm-moe-dsa"):
            cases = self.copy_of(name)
            for sizes in (["-tp", 2, *TCP], ["-dp", 3, *TCP], ["-tp", 2, "-pp", 2, *TCP]):
                with self.subTest(name=name, sizes=sizes):
                    self.generate(cases, *COMMON, *sizes)

    def test_each_expert_may_be_divided_instead(self):
        for name in (*NAMES, "gpt-oss", "llama4"):
            cases = self.copy_of(name)
            with self.subTest(name=name):
                options = [option for option in COMMON if option != "--enable-expert-parallel"]
                self.generate(cases, *options, "-tp", 2, *TCP)

    def test_repeats_are_equal_bit_for_bit(self):
        self.copy_of("qwen3-moe")
        # Tokens are sampled and log-probabilities shown, so a different last bit becomes visible sooner or later.
        words = ["generate", self.folder, "--prompt", "abc", "--prompt", "xyz", "--json", "--temperature", 1.3, "--seed", 5,
                 "--ignore-eos", "--max-tokens", 60, "--dtype", "float32", *COMMON, "-tp", 2]
        outputs = []
        for _ in range(2):
            done = run(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            outputs.append([output["token_ids"] for output in json.loads(done.stdout)["outputs"]])
        self.assertEqual(outputs[0], outputs[1])

    def test_what_cannot_be_divided_is_named(self):
        self.copy_of("mixtral")
        words = ["generate", self.folder, "--prompt", "abc", "--max-tokens", 2, "--temperature", 0, *COMMON]
        for options, sentence in [
            (["-dp", 5], "--enable-expert-parallel: 5 ranks are more than the 4 experts of a layer"),
            (["-tp", 2, "--enable-eplb"], "--enable-eplb"),
        ]:
            with self.subTest(options=options):
                done = run(*words, *options)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(sentence, done.stderr)
        done = run(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--enable-expert-parallel has no effect: one rank has all experts", done.stderr)


if __name__ == "__main__":
    architectures_test.BINARY, architectures_test.SOURCE = sys.argv[1], Path(sys.argv[3])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
