#!/usr/bin/env python3
"""Starts of random configurations under random limits of memory: none runs out of it at or after its captures.

    memory_budget_test.py REPRISE_BINARY MODEL_FOLDER FAKE_PLUGIN [--starts N] [--seed N]

Half of the starts run on a fake GPU with little memory (REPRISE_FAKE_MEMORY). The other half run on the CPU under
RLIMIT_DATA, which the system enforces without root: an allocation beyond it fails. A start either answers requests
within its limit, or refuses with a sentence that says what does not fit and what helps. A GPU's limit is chosen from
a first start without one, so that it is tight: a few percent more than weights, steps, graphs and the smallest cache.
The bill of `explain --memory` before the start, that of the start, and what the device counts agree within 2 %.
Uses only Python's standard library.
"""

import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import architectures_test
from in_turn import load_tests  # noqa: F401

GOLDENS = Path(__file__).resolve().parent.parent / "goldens"
MIB = 1 << 20
ARGUMENTS = None
TIMEOUT = 300
# A refused start gives one of these messages. Any other failure means that it ran out of memory.
REFUSALS = re.compile(r"is left for the KV cache|KV cache are needed|states of \d+ requests take|at least 2 are needed"
                      r"|the weights of this model take|blocks take|do not fit")


class Machine:
    """The program in a folder of its own, with the fake plug-in, and models of several kinds."""

    def __init__(self, folder):
        self.cpu_program = Path(ARGUMENTS.binary)
        self.folder = Path(folder)
        for source in (self.cpu_program, *self.cpu_program.parent.glob("reprise_codegen_*.so"), Path(ARGUMENTS.plugin)):
            shutil.copy(source, self.folder / source.name)
        self.program = self.folder / self.cpu_program.name
        self.models = [ARGUMENTS.model]
        # One model with states and attention, one with a delta net, one with latent attention.
        for golden in ("bamba", "qwen3-next", "deepseek-v3"):
            model = self.folder / golden
            shutil.copytree(GOLDENS / "architectures" / golden, model)
            architectures_test.write_tokenizer(model)
            self.models.append(str(model))

    def run(self, device, command, options, data_limit=None, **environment):
        def limit():
            if data_limit is not None:
                resource.setrlimit(resource.RLIMIT_DATA, (data_limit, data_limit))

        program = self.program if device == "cuda" else self.cpu_program
        return subprocess.run([program, command, *options, "--device", device], capture_output=True, text=True, timeout=TIMEOUT,
                              preexec_fn=limit, env={**os.environ, "VLLM_LOGGING_LEVEL": "DEBUG", "MALLOC_ARENA_MAX": "2", **environment})


def bill_of(done):
    """The bill in the log of a start."""
    found = re.search(r"memory bill (\{.*\})", done.stderr)
    assert found, done.stderr
    return json.loads(found[1])


def configuration(rng, machine, device):
    """Options that any start takes, small enough for the fake GPU."""
    num_seqs = rng.choice((1, 2, 3, 4, 8))
    options = ["--max-num-seqs", num_seqs, "--max-num-batched-tokens", rng.choice((16, 24, 32, 48)),
               "--max-model-len", rng.choice((96, 128)), "--dtype", "float32" if device == "cuda" else rng.choice(("float32", "bfloat16")),
               "--block-size", rng.choice((16, 32)), "--disable-compile-cache",
               "-cc", json.dumps({"mode": rng.choice((0, 3)), "cudagraph_mode": rng.choice(("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"))
                                  if rng.random() < 0.7 else "FULL_AND_PIECEWISE"})]
    if json.loads(options[-1])["mode"] == 0:
        options[-1] = json.dumps({"mode": 0, "cudagraph_mode": rng.choice(("NONE", "FULL", "FULL_DECODE_ONLY"))})
    model = rng.choice(machine.models)
    if model == ARGUMENTS.model and rng.random() < 0.3:
        options += ["--speculative-config", json.dumps({"method": "ngram", "num_speculative_tokens": rng.choice((1, 3)),
                                                        "prompt_lookup_max": 3})]
    if rng.random() < 0.2:
        options += ["--no-enable-prefix-caching"]
    return [model, *map(str, options)]


def load(rng):
    """Requests that fill steps and the cache: more than run at once, of several lengths."""
    words = "Once upon a time there was a little fox who lived in the forest and".split()
    prompts = []
    for _ in range(rng.choice((2, 5))):
        prompts += ["--prompt", " ".join(rng.choices(words, k=rng.choice((1, 4, 9))))]
    return [*prompts, "--temperature", "0", "--max-tokens", str(rng.choice((3, 6)))]


class MemoryBudget(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.machine = Machine(folder.name)

    def check_parts(self, bill):
        """The parts add up to what the device counts, and all of it is within the budget."""
        parts = sum(bill[part] for part in ("others", "weights", "states", "kv_cache", "activations", "graphs", "buffers"))
        self.assertAlmostEqual(parts / bill["reported"], 1, delta=0.02, msg=bill)

    def check_prediction(self, planned, bill):
        measured = sum(bill[part] for part in ("activations", "graphs", "buffers")) + bill["others"] - planned["others"]
        parts = ["weights"]
        # The figures that were unknown fit beside the largest caches.
        if not planned["cache_is_limit"] or measured < planned["rest"]:
            parts += ["states", "kv_cache"]
        for part in parts:
            self.assertLessEqual(abs(planned[part] - bill[part]), 0.02 * max(planned[part], bill[part]) + 65536, (part, planned, bill))
        for part in ("states", "kv_cache"):
            self.assertLessEqual(bill[part], planned[part], (planned, bill))

    def start_on_gpu(self, rng):
        options = configuration(rng, self.machine, "cuda")
        requests = load(rng)
        free = self.machine.run("cuda", "generate", [*options, *requests])
        self.assertEqual(free.returncode, 0, (options, free.stderr))
        roomy = bill_of(free)
        self.check_parts(roomy)
        utilization = rng.choice((0.5, 0.8, 0.9, 0.95, 0.99, 0.99, 1.0))
        # The limits: all parts except the cache, plus cache sizes from a part of the smallest to more than is useful.
        needed = roomy["reported"] - roomy["kv_cache"]
        memory = int((needed + roomy["kv_cache"] * rng.uniform(0.05, 1.2)) / utilization)
        options += ["--gpu-memory-utilization", str(utilization)]
        environment = {"REPRISE_FAKE_MEMORY": str(memory)}
        if rng.random() < 0.15:
            environment["REPRISE_FAKE_WITHOUT_VIRTUAL_MEMORY"] = "1"
        tight = self.machine.run("cuda", "generate", [*options, *requests], **environment)
        if tight.returncode != 0:
            self.assertRegex(tight.stderr, REFUSALS, (options, memory))
            return "refused"
        self.assertEqual(tight.stdout, free.stdout, (options, memory))
        self.assertNotRegex(tight.stderr, r"(?i)out of memory|OUT_OF_MEMORY", (options, memory))
        bill = bill_of(tight)
        self.check_parts(bill)
        self.assertLessEqual(bill["reported"], bill["budget"], (options, bill))
        # Memory was the limit: all of it is used, except what is less than a block.
        if bill["num_blocks"] < roomy["num_blocks"]:
            self.assertGreaterEqual(bill["reported"], 0.98 * bill["budget"], (options, bill))
        planned = self.machine.run("cuda", "explain", [*options, "--memory", "--json"], **environment)
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.check_prediction(json.loads(planned.stdout)["memory"], bill)
        return "tight" if bill["num_blocks"] < roomy["num_blocks"] else "roomy"

    def start_on_cpu(self, rng):
        options = configuration(rng, self.machine, "cpu")
        if rng.random() < 0.7:
            options += ["--gpu-memory-utilization", str(rng.choice((0.8, 0.95, 0.99, 0.99)))]
        requests = load(rng)
        limit = rng.randrange(90, 600) * MIB
        done = self.machine.run("cpu", "generate", [*options, "--num-threads", "2", *requests], data_limit=limit)
        self.assertGreaterEqual(done.returncode, 0, (options, limit, done.stderr))  # no signal ends it
        if done.returncode != 0:
            self.assertRegex(done.stderr, REFUSALS, (options, limit))
            return "refused"
        bill = bill_of(done)
        self.assertIn("RLIMIT_DATA", bill["limit"])
        self.assertLessEqual(bill["reported"], bill["budget"], (options, bill))
        self.check_parts(bill)
        planned = self.machine.run("cpu", "explain", [*options, "--num-threads", "2", "--memory", "--json"], data_limit=limit)
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.check_prediction(json.loads(planned.stdout)["memory"], bill)
        return "started"

    def test_random_configurations_stay_within_random_limits(self):
        counts = {}
        for number in range(ARGUMENTS.starts):
            rng = random.Random(f"{ARGUMENTS.seed}/{number}")
            start = self.start_on_gpu if number % 2 else self.start_on_cpu
            with self.subTest(number=number, seed=ARGUMENTS.seed):
                outcome = f"{start.__name__[9:]}: {start(rng)}"
                counts[outcome] = counts.get(outcome, 0) + 1
        print(counts, file=sys.stderr)

    def test_a_cache_gets_what_an_estimate_of_graphs_would_take(self):
        """vllm#45178: many sizes that share one pool, of which each was counted as if it had its own memory."""
        sizes = list(range(1, 11))
        options = [ARGUMENTS.model, "--max-num-seqs", "10", "--max-num-batched-tokens", "10", "--max-model-len", "256", "--dtype", "float32",
                   "--disable-compile-cache", "--gpu-memory-utilization", "0.99",
                   "-cc", json.dumps({"mode": 0, "cudagraph_mode": "FULL", "cudagraph_capture_sizes": sizes})]
        request = ["--prompt", "Once upon a time", "--temperature", "0", "--max-tokens", "2"]
        free = self.machine.run("cuda", "generate", [*options, *request])
        self.assertEqual(free.returncode, 0, free.stderr)
        bill = bill_of(free)
        # An estimate that multiplies the size of one graph by the number of sizes is too large. The memory of this
        # card is such that the estimate would leave 0.4 of the cache that is really available.
        per_key = bill["graphs"] // 2
        estimated = per_key * len(sizes)
        memory = int((bill["reported"] - bill["kv_cache"] - bill["graphs"] + estimated + 0.4 * bill["kv_cache"]) / 0.99)
        tight = self.machine.run("cuda", "generate", [*options, *request], REPRISE_FAKE_MEMORY=str(memory))
        self.assertEqual(tight.returncode, 0, tight.stderr)
        real = bill_of(tight)
        of_estimator = real["budget"] - (real["reported"] - real["kv_cache"] - real["graphs"]) - estimated
        self.assertGreaterEqual(real["kv_cache"], 2 * of_estimator, (real, estimated))

    def test_a_card_that_is_full_but_for_one_percent_starts_as_one_that_is_full_but_for_three(self):
        """vllm#57475: 0.98 died where 0.97 started."""
        options = [ARGUMENTS.model, "--max-num-seqs", "4", "--max-num-batched-tokens", "32", "--max-model-len", "128", "--dtype", "float32"]
        request = ["--prompt", "Once upon a time", "--temperature", "0", "--max-tokens", "4"]
        free = bill_of(self.machine.run("cuda", "generate", [*options, *request]))
        memory = str(int((free["reported"] - free["kv_cache"] / 2) / 0.97))
        blocks = []
        for utilization in ("0.97", "0.98", "0.99", "1.0"):
            done = self.machine.run("cuda", "generate", [*options, "--gpu-memory-utilization", utilization, *request], REPRISE_FAKE_MEMORY=memory)
            self.assertEqual(done.returncode, 0, done.stderr)
            blocks.append(bill_of(done)["num_blocks"])
        self.assertEqual(blocks, sorted(blocks))

    def test_a_limit_that_is_too_small_is_named_before_anything_dies(self):
        for name in ("--gpu-memory-utilization", "--device-memory-utilization"):
            done = self.machine.run("cpu", "generate", [ARGUMENTS.model, "--prompt", "a", "--max-tokens", "1", name, "0.05"],
                                    data_limit=160 * MIB)
            self.assertEqual(done.returncode, 2, done.stderr)
            for part in ("RLIMIT_DATA", "nothing is left for the KV cache", "--max-num-batched-tokens"):
                self.assertIn(part, done.stderr)
        done = self.machine.run("cpu", "generate", [ARGUMENTS.model, "--prompt", "a", "--max-tokens", "1", "--kv-cache-memory-bytes", "8G"],
                                data_limit=400 * MIB)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--kv-cache-memory-bytes: 8.00 GiB do not fit", done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("plugin")
    parser.add_argument("--starts", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
