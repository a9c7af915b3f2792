#!/usr/bin/env python3
"""`reprise tune` and --tune of the whole program, on a fake GPU whose clock says how long each kernel takes.

    tune_program_test.py REPRISE_BINARY MODEL_FOLDER FAKE_PLUGIN [-v or names of tests]

The fake's algorithms sum in different orders, so another choice gives other log-probabilities. Uses only Python's
standard library.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from in_turn import load_tests  # noqa: F401  the fake GPU computes all candidates of all products: minutes

CPU_PROGRAM, MODEL, PLUGIN = sys.argv[1:4] if len(sys.argv) > 3 else (None, None, None)
LIMITS = ["--max-num-seqs", "2", "--max-num-batched-tokens", "16", "--max-model-len", "64", "--dtype", "bfloat16",
          "--kv-cache-memory-bytes", "4M"]
# Cuts the start: two sizes, one of them larger than the rows from which the library multiplies by default.
SIZES = ["-cc", '{"cudagraph_capture_sizes": [2, 12]}']
# The fake GPU computes each candidate for each layer. All layers have the same products, so two of the six stand for all.
TWO_LAYERS = ["--hf-overrides", '{"num_hidden_layers": 2}']
SLOW, FAST = "9,3", "3,9"  # microseconds of the two algorithms; the heuristic names the first one first


class Tune(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        program = Path(folder.name)
        for source in (Path(CPU_PROGRAM), *Path(CPU_PROGRAM).parent.glob("reprise_codegen_*.so"), Path(PLUGIN)):
            shutil.copy(source, program / source.name)
        cls.program = str(program / "reprise")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = Path(folder.name) / "cache"

    def start(self, command, *options, program=None, algorithms=SLOW, version="130100", environment=None):
        environment = {**os.environ, **(environment or {}), "REPRISE_CACHE_ROOT": str(self.cache), "REPRISE_FAKE_ALGORITHM_US": algorithms,
                       "REPRISE_FAKE_LINEAR_US": "20", "REPRISE_FAKE_CUBLASLT": version}
        layers = [] if program == CPU_PROGRAM else TWO_LAYERS
        return subprocess.Popen([program or self.program, command, MODEL, *LIMITS, *SIZES, *layers, *options], env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_program(self, *arguments, **settings):
        process = self.start(*arguments, **settings)
        out, errors = process.communicate(timeout=900)
        self.assertEqual(process.returncode, 0, errors)
        return out, errors

    def tune(self, *options, **settings):
        return json.loads(self.run_program("tune", "--json", *options, **settings)[0])

    def logprobs(self, *options, **settings):
        """Of many tokens behind a prompt of ten, because bfloat16 hides the order of most sums. With what the program
        said."""
        body = {"prompt": "Once upon a time there was a little girl", "temperature": 0, "max_tokens": 8, "logprobs": 20}
        requests, answers = self.cache.parent / "requests", self.cache.parent / "answers"
        requests.write_text(json.dumps({"custom_id": "0", "method": "POST", "url": "/v1/completions", "body": body}) + "\n")
        _, errors = self.run_program("run-batch", "-i", requests, "-o", answers, *options, **settings)
        choice = json.loads(answers.read_text())["response"]["body"]["choices"][0]
        return json.dumps(choice["logprobs"]), errors

    def bits(self, *options, **settings):
        return self.logprobs(*options, **settings)[0]

    def table(self):
        (path,) = (self.cache / "tuned_products").glob("*.products")
        return path

    def test_the_choice_is_stored_and_every_later_start_has_its_bits(self):
        by_rule = self.bits()
        self.assertFalse((self.cache / "tuned_products").exists(), "nothing is measured unasked")
        tuned = self.tune()
        self.assertGreater(tuned["num_measured"], 10)
        self.assertGreater(tuned["num_changed"], 5)
        self.assertEqual(tuned["file"], str(self.table()))
        for product in tuned["measured"]:
            self.assertLessEqual(product["us"], product["built_in_us"])
        chosen = self.bits()
        self.assertNotEqual(chosen, by_rule)
        # The algorithms' times change, the choice does not; and without it the rule holds again.
        self.assertEqual(self.bits(algorithms=FAST), chosen)
        self.assertEqual(self.bits("--tune", algorithms=FAST), chosen)
        self.assertEqual(self.bits("--no-tune"), by_rule)
        again = self.tune(algorithms=FAST)
        self.assertEqual((again["num_measured"], again["measured"]), (0, []))
        self.assertEqual(self.bits(), chosen)
        self.assertGreater(self.tune("--again", algorithms=FAST)["num_measured"], 10)
        replaced = self.bits()
        self.assertNotEqual(replaced, chosen)
        self.assertEqual(self.bits("--tune"), replaced)

    def test_the_stored_choices_are_shown(self):
        out, _ = self.run_program("tune")
        self.assertRegex(out, r"measured \d+ products in .* s; for \d+ of them the built-in rule is not the fastest")
        self.assertRegex(out, r"linear_silu_and_mul \d+x\d+ bfloat16, normed +2 +.* library [0-9a-f]{4} ")
        self.assertRegex(out, r"saved\n")
        dump, _ = self.run_program("dump")
        self.assertIn("products measured on this device", dump)
        self.assertIn(str(self.table()), dump)
        self.assertRegex(dump, r"library [0-9a-f]{4} ")
        self.assertNotIn("measured on this device", self.run_program("dump", "--no-tune")[0])

    def test_vllms_max_autotune_is_the_same_option(self):
        config = '{"cudagraph_capture_sizes": [2], "inductor_compile_config": {"max_autotune": true}}'
        _, errors = self.logprobs("-cc", config)
        self.assertNotIn("inductor_compile_config", errors)
        self.assertTrue(self.table().is_file())

    def test_a_damaged_table_is_refused_with_a_message_and_measured_again(self):
        by_rule = self.bits()
        self.tune()
        chosen = self.bits()
        path = self.table()
        good = path.read_bytes()
        for damage in (good[:-7], good[:40], b"", good.replace(b'"us":', b'"uS":', 1)):
            path.write_bytes(damage)
            bits, errors = self.logprobs()
            self.assertEqual(bits, by_rule)
            self.assertIn(str(path), errors)
            self.assertIn("reprise tune MODEL", errors)
        self.assertGreater(self.tune()["num_measured"], 10)
        self.assertEqual(self.bits(), chosen)

    def test_another_version_of_the_library_does_not_use_the_table(self):
        by_rule = self.bits()
        self.tune()
        self.assertEqual(self.bits(version="130200"), by_rule)
        self.assertGreater(self.tune(version="130200")["num_measured"], 10)
        self.assertEqual(len(list((self.cache / "tuned_products").glob("*.products"))), 2)

    def test_two_processes_that_measure_at_once_agree(self):
        processes = [self.start("tune", "--json", algorithms=algorithms) for algorithms in (SLOW, FAST)]
        for process in processes:
            _, errors = process.communicate(timeout=900)
            self.assertEqual(process.returncode, 0, errors)
        bits = self.bits()
        self.assertEqual(self.bits("--tune"), bits)
        self.assertEqual(len(list((self.cache / "tuned_products").glob("*.products"))), 1)

    def test_batch_invariance_has_a_table_of_its_own_without_the_library(self):
        invariant = self.bits("--batch-invariant")
        self.tune()
        self.assertEqual(self.bits("--batch-invariant"), invariant)
        for product in self.tune("--batch-invariant")["measured"]:
            self.assertNotIn("library", product["choice"])
        self.assertEqual(self.bits("--batch-invariant"), invariant)

    def test_a_cpu_compares_numbers_of_threads_and_stores_nothing(self):
        on_cpu = {"program": CPU_PROGRAM}
        out, errors = self.run_program("tune", "--device", "cpu", "--num-threads", "2", **on_cpu)
        self.assertEqual(errors, "")
        self.assertRegex(out, r"threads +decode of 1 request, ms +prompt of 16 tokens, ms\n +2 +\d.*\n +1 +\d")
        self.assertRegex(out, r"\nnothing to tune on this CPU: no number of threads below 2 saves 3 %|\ngive --num-threads 1: ")
        trials = self.tune("--device", "cpu", "--num-threads", "2", **on_cpu)["threads"]
        self.assertEqual([trial["num_threads"] for trial in trials], [2, 1])
        _, errors = self.run_program("tune", "--device", "cpu", "--again", **on_cpu)
        self.assertIn("warning: --again has no effect", errors)
        for options, environment in ((["--tune"], {}), ([], {"VLLM_ENABLE_INDUCTOR_MAX_AUTOTUNE": "1"})):
            _, errors = self.logprobs("--device", "cpu", *options, environment=environment, **on_cpu)
            self.assertIn("--tune has no effect on this device", errors)
        _, errors = self.logprobs("--device", "cpu", environment={"VLLM_ENABLE_INDUCTOR_MAX_AUTOTUNE": "0"}, **on_cpu)
        self.assertNotIn("--tune", errors)
        self.assertFalse((self.cache / "tuned_products").exists())

    def test_what_measures_nothing_says_so(self):
        on_cpu = {"program": CPU_PROGRAM}
        for options, message in ((["tune", "--no-tune"], "tune: --no-tune measures nothing"),
                                 (["generate", "--prompt", "Once", "--tune", "--tensor-parallel-size", "2",
                                   "--distributed-executor-backend", "mp"], "--tune: engines that run their steps together")):
            process = self.start(*options, "--device", "cpu", **on_cpu)
            _, errors = process.communicate(timeout=900)
            self.assertNotEqual(process.returncode, 0)
            self.assertIn(message, errors)
        _, errors = self.run_program("dump", "--tune", "--device", "cpu", **on_cpu)
        self.assertIn("--tune has no effect: nothing runs here", errors)


if __name__ == "__main__":
    del sys.argv[1:4]
    unittest.main()
