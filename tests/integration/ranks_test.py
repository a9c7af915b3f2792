#!/usr/bin/env python3
"""Several ranks as real processes: tokens, repeats, modes and levels; ranks that are killed, stopped or slow.

    ranks_test.py REPRISE_BINARY MODEL_FOLDER

Uses only Python's standard library. Skipped where this build has no MPI plug-in or the machine no mpirun.
"""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

from in_turn import every_time, load_tests, part_of  # noqa: F401

BINARY = MODEL = None
COMMON = ["--dtype", "float32", "--num-threads", "1", "--kv-cache-memory-bytes", "16M", "--device", "cpu"]
PROMPTS = ["-p", "Once upon a time there was a", "-p", "The little dog", "-p", "One day, Ben found"]
MODES = ["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"]
TIMEOUT = 120  # for things that take a second on an idle machine
LOST_SECONDS = 8  # --distributed-timeout-seconds of tests that lose a rank
NAMED_SECONDS = 30  # the time within which a lost rank must be named and all processes must end


def missing_parts():
    if not os.path.exists(os.path.join(os.path.dirname(BINARY), "reprise_mpi.so")):
        return "this build has no MPI plug-in"
    return "" if shutil.which("mpirun") else "this machine has no mpirun"


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return sorted(int(child) for child in file.read().split())


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def generate(*options, launcher=(), expect=0):
    """The tokens of each answer, or with another expected exit code what stderr says."""
    command = [*launcher, BINARY, "generate", MODEL, *PROMPTS, "--max-tokens", "20", "--temperature", "0", "--json"]
    done = subprocess.run([*command, *COMMON, *options], capture_output=True, text=True, timeout=TIMEOUT)
    if done.returncode != expect:
        raise AssertionError(f"exit code {done.returncode}, expected {expect}:\n{done.stderr}")
    if expect:
        return done.stderr
    document = json.loads(done.stdout)
    return [output["token_ids"] for output in document["outputs"]], document


class Tokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.expected, _ = generate()

    @every_time
    def test_all_modes_and_levels_give_the_tokens_of_one_rank(self):
        for size, mode, level in part_of(itertools.product(("2", "4"), MODES, ("0", "3"))):
            with self.subTest(size=size, mode=mode, level=level):
                tokens, document = generate("-tp", size, "--level", level, "-cc.cudagraph_mode", mode)
                self.assertEqual(tokens, self.expected)
                self.assertEqual(document["graphs"]["cudagraph_mode"], mode)

    def test_repeats_are_equal_bit_for_bit(self):
        # Tokens are sampled and their log-probabilities shown, so a different last bit becomes visible sooner or later.
        options = ["-tp", "2", "--temperature", "1.3", "--seed", "5", "--max-tokens", "60"]
        first, _ = generate(*options)
        second, _ = generate(*options, "--async-scheduling")
        self.assertEqual(first, second)

    def test_sampled_type_runs_too(self):
        tokens, _ = generate("-tp", "2", "--dtype", "bfloat16")
        self.assertEqual([len(answer) for answer in tokens], [20, 20, 20])

    def test_a_launcher_may_start_the_ranks(self):
        launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"]
        tokens, _ = generate("-tp", "2", launcher=launcher)
        self.assertEqual(tokens, self.expected)
        text = generate("-tp", "4", launcher=launcher, expect=2)
        self.assertIn("mpirun started 2 ranks, and --tensor-parallel-size 4 needs 4", text)


class Refusals(unittest.TestCase):
    def test_what_is_not_ready_is_refused_by_name(self):
        for options, sentence in [
            (["-tp", "3"], "3 ranks cannot divide 4 attention heads"),
            (["-tp", "0"], "--tensor-parallel-size: 0 is not a positive number"),
            (["-tp", "2", "--enable-lora"], "--enable-lora: an adapter is not supported with several ranks"),
            (["-tp", "2", "--quantization", "int8"], "--quantization: int8 is not supported with several ranks"),
            (
                ["-tp", "2", "--speculative-config", '{"method": "ngram", "num_speculative_tokens": 2}'],
                "--speculative-config: speculative decoding is not supported with several ranks",
            ),
            (["--distributed-timeout-seconds", "0"], "--distributed-timeout-seconds: 0 is not a positive number"),
        ]:
            with self.subTest(options=options):
                self.assertIn(sentence, generate(*options, expect=2))

    def test_other_commands_say_which_commands_have_ranks(self):
        done = subprocess.run(
            [BINARY, "eval", MODEL, "-tp", "2"], capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
        self.assertEqual(done.returncode, 2)
        self.assertIn("several ranks are started by the commands generate, serve", done.stderr)


def shared_memory_of(pids):
    """The files in /dev/shm that these processes map. Other programs of the machine have files there too."""
    names = set()
    for pid in pids:
        with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
            names.update(line.split(maxsplit=5)[5].strip() for line in file if "/dev/shm/" in line)
    return {name.removesuffix(" (deleted)") for name in names}


class Server:
    """`reprise serve` with two ranks."""

    def __init__(self, *options):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [BINARY, "serve", MODEL, "--port", "0", "--served-model-name", "tiny", "-tp", "2", *COMMON, *options],
            stdout=subprocess.DEVNULL,
            stderr=self.log,
        )
        self.wait_for(lambda: "Application startup complete." in self.text())
        self.url = "http://" + self.text().split("API server on http://")[1].split()[0]
        # The process that the test started runs mpirun, whose children are the ranks.
        self.launcher = children_of(self.process.pid)[0]
        self.ranks = children_of(self.launcher)
        assert len(self.ranks) == 2, self.ranks

    def text(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode("utf-8", "replace")

    def wait_for(self, condition, seconds=TIMEOUT):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError("waited in vain; the log:\n" + self.text())
            time.sleep(0.05)

    def complete(self, max_tokens):
        body = {"model": "tiny", "prompt": "Once upon a time", "max_tokens": max_tokens, "temperature": 0}
        request = urllib.request.Request(
            self.url + "/v1/completions",
            json.dumps({**body, "ignore_eos": True}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            return json.load(response)["choices"][0]["text"]

    def keep_busy(self):
        """Requests one after the other until the server is gone. Returns when the first is answered."""
        self.num_answers = 0

        def run():
            try:
                while True:
                    self.complete(200)
                    self.num_answers += 1
            except (urllib.error.URLError, OSError, ValueError):
                pass

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.wait_for(lambda: self.num_answers > 0)
        return thread

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        for pid in self.ranks:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()


class Starts(unittest.TestCase):
    def test_a_server_that_is_told_to_end_while_it_starts_ends(self):
        for backend in ("mpi", "mp"):
            for delay in (0, 0.02, 0.05, 0.1, 0.2, 0.4):
                with self.subTest(backend=backend, delay=delay):
                    process = subprocess.Popen(
                        [BINARY, "serve", MODEL, "--port", "0", "-tp", "2", "--distributed-executor-backend", backend, *COMMON],
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    self.addCleanup(process.kill)
                    time.sleep(delay)
                    process.terminate()
                    process.wait(TIMEOUT)


class LostRanks(unittest.TestCase):
    def lose(self, rank, how, is_busy):
        """Loses a rank; returns what stderr says when every process has ended."""
        server = Server("--distributed-timeout-seconds", str(LOST_SECONDS))
        try:
            segments = shared_memory_of(server.ranks)
            busy = server.keep_busy() if is_busy else None
            begin = time.monotonic()
            os.kill(server.ranks[rank], how)
            server.process.wait(timeout=TIMEOUT)
            seconds = time.monotonic() - begin
            self.assertLess(seconds, NAMED_SECONDS, server.text())
            self.assertNotEqual(server.process.returncode, 0)
            for pid in [server.launcher, *server.ranks]:
                server.wait_for(lambda pid=pid: not is_running(pid), 5)
            self.assertEqual([name for name in segments if os.path.exists(name)], [])
            if busy is not None:
                busy.join(timeout=TIMEOUT)
                self.assertFalse(busy.is_alive(), "a client still waits")
            return server.text()
        finally:
            server.close()

    def test_a_killed_rank_is_named(self):
        for rank, is_busy in [(1, False), (0, True)]:
            with self.subTest(rank=rank, is_busy=is_busy):
                text = self.lose(rank, signal.SIGKILL, is_busy)
                self.assertRegex(text, rf"process rank {rank} .*exited on signal 9|rank {rank} has sent no heartbeat")

    def test_a_stopped_rank_is_named(self):
        for rank, is_busy in [(1, False), (1, True), (0, True)]:
            with self.subTest(rank=rank, is_busy=is_busy):
                text = self.lose(rank, signal.SIGSTOP, is_busy)
                self.assertRegex(text, rf"rank {rank} (has sent no heartbeat|did not take part)")

    def test_a_short_pause_is_no_loss(self):
        server = Server("--distributed-timeout-seconds", "20")
        try:
            expected = server.complete(100)
            server.keep_busy()
            os.kill(server.ranks[1], signal.SIGSTOP)
            time.sleep(2)
            os.kill(server.ranks[1], signal.SIGCONT)
            self.assertEqual(server.complete(100), expected)
            # In an orderly end, the server answers the requests that it has accepted.
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(timeout=TIMEOUT), 0, server.text())
            self.assertNotIn("heartbeat", server.text())
        finally:
            server.close()

    def test_the_ranks_end_with_the_process_that_started_them(self):
        server = Server()
        try:
            segments = shared_memory_of(server.ranks)
            self.assertEqual(len(segments), 2)  # Open MPI has one for each rank
            server.process.kill()
            server.process.wait()
            for pid in [server.launcher, *server.ranks]:
                server.wait_for(lambda pid=pid: not is_running(pid), NAMED_SECONDS)
            self.assertEqual([name for name in segments if os.path.exists(name)], [])
        finally:
            server.close()

    def test_no_shared_memory_is_left_if_nothing_can_clean_up(self):
        server = Server()
        try:
            segments = shared_memory_of(server.ranks)
            self.assertEqual(len(segments), 2)
            for pid in [server.process.pid, server.launcher, *server.ranks]:
                os.kill(pid, signal.SIGKILL)
            server.process.wait()
            for pid in [server.launcher, *server.ranks]:
                server.wait_for(lambda pid=pid: not is_running(pid), NAMED_SECONDS)
            self.assertEqual([name for name in segments if os.path.exists(name)], [])
        finally:
            server.close()


if __name__ == "__main__":
    BINARY, MODEL = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    if missing := missing_parts():
        print(f"skipped: {missing}", file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
