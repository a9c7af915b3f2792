#!/usr/bin/env python3
"""SIGTERM in every state that a server can be in, each attack among them: the process ends, and leaves none behind.

    shutdown_states_test.py REPRISE_BINARY MODEL_FOLDER [--bound SECONDS]

Requests that run get --shutdown-timeout, which is one second here; then the server has a moment to end. The test prints
how long each state took and judges only a generous bound, which a server that hangs does not keep: other programs may have
the processor. Only Python's standard library.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "load"))
import attacks
import serve_test
from serve_test import TIMEOUT, stories

DRAIN_SECONDS = 1
BOUND = TIMEOUT  # after the drain
ATTACKERS = 4


def processes_with(mark):
    """Processes, other than this one's children that have ended, whose environment has this variable."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if mark.encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:  # it has ended, or is not ours
                pass
    return found


class States(unittest.TestCase):
    def setUp(self):
        self.mark = f"shutdown-{uuid.uuid4()}"
        self.connections = []

    def tearDown(self):
        for connection in self.connections:
            connection.close()

    def start(self, *options):
        server = serve_test.Server("--shutdown-timeout", str(DRAIN_SECONDS), *options, SHUTDOWN_TEST_MARK=self.mark)
        self.addCleanup(server.stop, signal.SIGKILL)
        self.assertEqual(processes_with(self.mark), [server.process.pid])
        return server

    def send(self, server, *requests):
        for request in requests:
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT)
            self.connections.append(connection)
            try:
                connection.sendall(request)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused while it was sent

    def terminate(self, process, number=signal.SIGTERM):
        began = time.monotonic()
        process.send_signal(number)
        try:
            code = process.wait(DRAIN_SECONDS + BOUND)
        except subprocess.TimeoutExpired:
            self.fail("the server hangs")
        print(f"{time.monotonic() - began:5.2f} s", end=" ", flush=True)
        self.assertEqual(processes_with(self.mark), [], "a process is left behind")
        return code

    def streams(self, server, count):
        self.send(server, *(attacks.completion(n, stream=True, max_tokens=900, ignore_eos=True) for n in range(count)))
        server.wait_until(lambda: server.metric("vllm:num_requests_running") > 0)

    def test_while_it_starts(self):
        for seconds in (0.0, 0.02, 0.1):
            log = tempfile.TemporaryFile()
            self.addCleanup(log.close)
            process = subprocess.Popen([serve_test.BINARY, "serve", serve_test.MODEL, "--port", "0"], stderr=log,
                                       stdout=subprocess.DEVNULL, env={**os.environ, "SHUTDOWN_TEST_MARK": self.mark})
            self.addCleanup(process.kill)
            time.sleep(seconds)
            self.assertIn(self.terminate(process), (0, -signal.SIGTERM))

    def test_without_work(self):
        server = self.start()
        self.send(server, b"", attacks.head("/health", method="GET"))
        self.assertEqual(self.terminate(server.process), 0)

    def test_with_streams(self):
        server = self.start()
        self.streams(server, 8)
        self.assertEqual(self.terminate(server.process), 0)

    def test_with_streams_and_requests_that_wait(self):
        server = self.start("--max-num-seqs", "4", "--async-scheduling")
        self.streams(server, 40)
        self.assertEqual(self.terminate(server.process), 0)

    def test_while_it_drains(self):
        server = self.start()
        self.streams(server, 8)
        server.process.send_signal(signal.SIGTERM)
        server.wait_until(lambda: "Shutting down" in server.text())
        self.assertEqual(self.terminate(server.process, signal.SIGINT), 0)

    def test_while_it_sleeps_and_a_request_waits(self):
        for level in (0, 1, 2):
            server = self.start("--dev")
            self.assertEqual(server.request("POST", f"/sleep?level={level}")[0].status, 200)
            self.send(server, attacks.completion(0, max_tokens=4))
            self.assertEqual(self.terminate(server.process), 0)

    def test_while_it_waits_for_requests_before_it_sleeps(self):
        server = self.start("--dev")
        self.streams(server, 8)
        self.send(server, attacks.head("/sleep?mode=wait", "Content-Length: 0"))
        server.wait_until(lambda: json.loads(server.request("GET", "/is_sleeping")[1])["is_sleeping"])
        self.assertEqual(self.terminate(server.process), 0)

    def test_while_it_records_a_profile(self):
        with tempfile.TemporaryDirectory() as folder:
            server = self.start("--profiler-config.torch_profiler_dir", folder)
            self.assertEqual(server.request("POST", "/start_profile")[0].status, 200)
            self.streams(server, 8)
            self.send(server, attacks.head("/stop_profile", "Content-Length: 0"))
            self.assertEqual(self.terminate(server.process), 0)

    def test_while_nobody_reads_its_log(self):
        process = subprocess.Popen([serve_test.BINARY, "serve", serve_test.MODEL, "--port", "0", "--enable-log-requests"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   env={**os.environ, "VLLM_LOGGING_LEVEL": "DEBUG", "SHUTDOWN_TEST_MARK": self.mark})
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        for line in process.stderr:
            if b"API server on" in line:
                port = int(line.rsplit(b":", 1)[1])
            if b"startup complete" in line:
                break
        for number in range(150):  # more than a pipe holds
            with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as connection:
                connection.sendall(attacks.long_text(number, 2000))
                while connection.recv(65536):
                    pass
        self.assertEqual(self.terminate(process), 0)


def test_of(attack):
    def test(self):
        server = self.start(*attack.options)
        if attack.needs_grammar:
            status, _ = server.post("/v1/completions", stories(max_tokens=1, structured_outputs={"choice": ["a"]}))
            if status != 200:
                self.skipTest("this build has no grammars")
        self.send(server, *(attack.request(number) for number in range(ATTACKERS)))
        # Each attack is running after this time. An attack that is already over is a valid state too.
        time.sleep(0.3)
        self.assertEqual(server.request("GET", "/health")[0].status, 200)
        self.assertEqual(self.terminate(server.process), 0)

    return test


for each in attacks.ATTACKS:
    setattr(States, "test_under_attack_by_" + each.name.replace(" ", "_").replace("-", "_"), test_of(each))


def main():
    global BOUND
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--bound", type=float, default=BOUND, help="seconds after the drain")
    options, rest = parser.parse_known_args()
    serve_test.BINARY, serve_test.MODEL, BOUND = options.binary, options.model, options.bound
    unittest.main(argv=sys.argv[:1] + rest, verbosity=2)


if __name__ == "__main__":
    main()
