#!/usr/bin/env python3
"""Ranks as processes, each with a GPU of a fake plug-in: tokens, replays, refusals, and ranks that are lost.

    cuda_ranks_test.py REPRISE_BINARY MODEL_FOLDER FAKE_PLUGIN

The GPUs of all processes exchange data by a fake NCCL through a file. Uses only Python's standard library.
"""

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request
from pathlib import Path

import architectures_test
from in_turn import every_time, load_tests  # noqa: F401

BINARY = MODEL = PLUGIN = None
GOLDENS = Path(__file__).resolve().parent.parent / "goldens"
COMMON = ["--dtype", "float32", "--kv-cache-memory-bytes", "4M", "--max-num-seqs", "2", "--max-num-batched-tokens", "32",
          "--max-model-len", "128", "--distributed-executor-backend", "mp"]
PROMPTS = ["-p", "Once upon a time", "-p", "The little dog"]
TIMEOUT = 300
LOST_SECONDS = 8  # --distributed-timeout-seconds of tests that lose a rank
NAMED_SECONDS = 30  # the time within which a lost rank must be named and all processes must end


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class RanksOnGpus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """A copy of the program beside which its plug-ins lie, the fake one in the real one's place."""
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        binary = Path(BINARY)
        for source in (binary, *binary.parent.glob("reprise_codegen_*.so"), Path(PLUGIN)):
            shutil.copy(source, cls.folder / source.name)
        cls.program = str(cls.folder / binary.name)

    def environment(self, num_gpus, **more):
        return {**os.environ, "REPRISE_FAKE_GPUS": str(num_gpus), **more}

    def generate(self, *options, model=None, num_gpus=4, expect=0, program=None, **environment):
        command = [program or self.program, "generate", str(model or MODEL), *PROMPTS, "--max-tokens", "8", "--temperature",
                   "0", "--json", *COMMON, *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT,
                              env=self.environment(num_gpus, **environment))
        self.assertEqual(done.returncode, expect, done.stderr)
        if expect:
            return done.stderr
        document = json.loads(done.stdout)
        return [output["token_ids"] for output in document["outputs"]], document

    def on_the_cpu(self, *options, model=None):
        tokens, _ = self.generate("--device", "cpu", *options, model=model, program=BINARY)
        return tokens

    def test_all_layouts_and_modes_give_the_tokens_of_the_cpu(self):
        expected = self.on_the_cpu()
        for layout in (("-tp", "2"), ("-pp", "2"), ("-tp", "2", "-pp", "2"), ("-dp", "2")):
            for mode in ("FULL_AND_PIECEWISE",) if layout[0] == "-dp" else ("NONE", "FULL_AND_PIECEWISE"):
                with self.subTest(layout=layout, mode=mode):
                    tokens, document = self.generate(*layout, "--device", "cuda", "-cc.cudagraph_mode", mode)
                    self.assertEqual(tokens, expected)
                    self.assertEqual(document["graphs"]["cudagraph_mode"], mode)

    def test_ranks_and_engines_share_experts(self):
        model = self.folder / "qwen3-moe"
        shutil.copytree(GOLDENS / "architectures" / "qwen3-moe", model)
        architectures_test.write_tokenizer(model)
        expected = self.on_the_cpu(model=model)
        for layout in (("-tp", "2"), ("-dp", "2")):
            with self.subTest(layout=layout):
                tokens, _ = self.generate(*layout, "--enable-expert-parallel", "--device", "cuda", model=model)
                self.assertEqual(tokens, expected)

    @every_time
    def test_replays_are_checked_on_all_ranks(self):
        tokens, _ = self.generate("-tp", "2", "--device", "auto", "--verify-graphs", "strict", "--shadow-check-rate", "1")
        self.assertEqual(tokens, self.on_the_cpu())

    def bill(self, *options):
        command = [self.program, "generate", MODEL, "-p", "The little dog", "--max-tokens", "2", "--temperature", "0",
                   "--device", "cuda", "--dtype", "float32",
                   "--max-num-seqs", "2", "--max-num-batched-tokens", "32", "--max-model-len", "128",
                   "--distributed-executor-backend", "mp", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT,
                              env=self.environment(2, VLLM_LOGGING_LEVEL="DEBUG", REPRISE_FAKE_MEMORY=str(600 << 20)))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(re.search(r"memory bill (\{.*\})", done.stderr)[1])

    def test_the_cache_leaves_room_for_the_memory_of_nccl(self):
        alone, ranked = self.bill(), self.bill("-tp", "2")
        self.assertGreaterEqual(ranked["others"] - alone["others"], 48 << 20)  # FakeNccl::kCommunicatorBytes
        parts = sum(ranked[part] for part in ("others", "weights", "states", "kv_cache", "activations", "graphs", "buffers"))
        self.assertAlmostEqual(parts / ranked["reported"], 1, delta=0.02, msg=ranked)

    def test_what_is_missing_is_refused_by_name(self):
        device = ("--device", "cuda")
        for options, num_gpus, environment, sentence in [
            (("-tp", "2"), 1, {}, r"ranks 0 and 1 both have the GPU at PCI 0000:10:00 of .*each rank needs a GPU of its own"),
            (("-tp", "4"), 2, {}, r"rank 2 is number 2 on its machine, which has only 2 GPUs; each rank needs a GPU"),
            (("-dp", "2"), 1, {}, r"ranks 0 and 1 both have the GPU"),
            (("-tp", "2"), 2, {"REPRISE_FAKE_WITHOUT_NCCL": "1"}, r"the GPU of rank 0 cannot exchange data: libnccl.so.2"),
            (("-tp", "2", "--async-scheduling"), 2, {}, r"--async-scheduling: the tokens of a step stay on the GPU of rank 0"),
        ]:
            with self.subTest(options=options, num_gpus=num_gpus):
                text = self.generate(*options, *device, num_gpus=num_gpus, expect=2, **environment)
                self.assertRegex(text, sentence)
        # Engines that share nothing need no NCCL.
        tokens, _ = self.generate("-dp", "2", *device, num_gpus=2, REPRISE_FAKE_WITHOUT_NCCL="1")
        self.assertEqual(len(tokens), 2)

    def serve(self, *options):
        log = tempfile.TemporaryFile()
        process = subprocess.Popen(
            [self.program, "serve", MODEL, "--port", "0", "--served-model-name", "tiny", "-tp", "2", "--device", "cuda",
             *COMMON, *options],
            stdout=subprocess.DEVNULL, stderr=log, env=self.environment(2))
        self.addCleanup(log.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def text():
            return os.pread(log.fileno(), 1 << 20, 0).decode("utf-8", "replace")

        deadline = time.monotonic() + TIMEOUT
        while "Application startup complete." not in text():
            self.assertLess(time.monotonic(), deadline, text())
            self.assertIsNone(process.poll(), text())
            time.sleep(0.05)
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
            ranks = sorted(int(child) for child in file.read().split())
        return process, ranks, "http://" + text().split("API server on http://")[1].split()[0], text

    def complete(self, url, max_tokens, path="/v1/completions"):
        body = {"model": "tiny", "prompt": "Once upon a time", "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
        request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            return json.load(response)["choices"][0]["text"]

    def test_no_token_of_a_step_that_a_lost_rank_left_is_sent(self):
        process, ranks, url, text = self.serve("--distributed-timeout-seconds", str(LOST_SECONDS))
        expected = self.complete(url, 100)
        body = {"model": "tiny", "prompt": "Once upon a time", "max_tokens": 100, "temperature": 0, "ignore_eos": True, "stream": True}
        request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        answer = ""
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                for line in response:
                    if not line.startswith(b"data: {"):
                        continue
                    event = json.loads(line[len(b"data: "):])
                    answer += "".join(choice["text"] for choice in event.get("choices", ()))
                    if answer.count(" ") == 5:
                        os.kill(ranks[1], signal.SIGSTOP)
        except (OSError, http.client.HTTPException):
            pass
        process.wait(timeout=TIMEOUT)
        self.assertIn("rank 1 has sent no heartbeat", text())
        self.assertTrue(answer)
        self.assertTrue(expected.startswith(answer), (expected, answer))
        self.assertLess(len(answer), len(expected))

    def test_a_lost_rank_is_named_and_all_processes_end(self):
        for rank, how, is_busy in ((1, signal.SIGKILL, True), (1, signal.SIGSTOP, True), (0, signal.SIGKILL, False)):
            with self.subTest(rank=rank, how=how):
                process, ranks, url, text = self.serve("--distributed-timeout-seconds", str(LOST_SECONDS))
                self.assertEqual(len(ranks), 2)

                def keep_busy(url=url):
                    try:
                        while True:
                            self.complete(url, 60)
                    except OSError:
                        pass

                self.complete(url, 4)
                client = threading.Thread(target=keep_busy, daemon=True)
                if is_busy:
                    client.start()
                    time.sleep(1)
                begin = time.monotonic()
                os.kill(ranks[rank], how)
                process.wait(timeout=TIMEOUT)
                self.assertLess(time.monotonic() - begin, NAMED_SECONDS, text())
                self.assertNotEqual(process.returncode, 0)
                self.assertRegex(text(), rf"rank {rank} (\(process \d+\) )?(has sent no heartbeat|did not take part|was killed|"
                                         r"ended|.*signal 9|has closed)")
                for pid in ranks:
                    self.assertFalse(is_running(pid), text())
                if is_busy:
                    client.join(timeout=TIMEOUT)
                    self.assertFalse(client.is_alive(), "a client still waits")


if __name__ == "__main__":
    BINARY, MODEL, PLUGIN = (os.path.abspath(path) for path in sys.argv[1:4])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
