#!/usr/bin/env python3
"""The log of `reprise serve`: a line for each request, text and JSON, levels, files, and hostile text.

    server_log_test.py REPRISE_BINARY MODEL_FOLDER

Uses only Python's standard library.
"""

import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import serve_test
from serve_test import TIMEOUT, Server, events

BODY = {"prompt": "Once upon a time", "max_tokens": 6, "ignore_eos": True, "seed": 1}


def json_lines(text):
    """The lines of a log in JSON; fails when one is not an object with the members that all lines have."""
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        assert {"time", "level", "module", "message"} <= line.keys(), line
        moment = datetime.datetime.strptime(line["time"], "%Y-%m-%dT%H:%M:%S.%fZ")
        age = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) - moment
        assert abs(age.total_seconds()) < 24 * 3600, line
    return lines


class Case(unittest.TestCase):
    def start(self, *options, **environment):
        server = Server(*options, **environment)
        self.addCleanup(server.stop)
        return server

    def access_lines(self, server, path):
        return [line for line in json_lines(server.log_so_far()) if line.get("path") == path]


class Requests(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--log-format", "json", "--enable-request-id-headers")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def line_of(self, path, request_id):
        return [line for line in self.access_lines(self.server, path) if request_id in line.get("request_id", "")][-1]

    def test_an_answer_has_its_numbers(self):
        began = time.monotonic()
        _, answer = self.server.post("/v1/completions", {**BODY, "n": 2}, {"X-Request-Id": "two-answers"})
        passed = time.monotonic() - began
        line = self.line_of("/v1/completions", "two-answers")
        self.assertEqual(line["request_id"], answer["id"])
        self.assertEqual(line["method"], "POST")
        self.assertEqual(line["status"], 200)
        self.assertEqual(line["prompt_tokens"], answer["usage"]["prompt_tokens"])
        self.assertEqual(line["completion_tokens"], answer["usage"]["completion_tokens"])
        self.assertEqual(line["completion_tokens"], 12)
        self.assertEqual(line["finish_reason"], "length")
        self.assertEqual(line["module"], "access")
        self.assertRegex(line["client"], r"^127\.0\.0\.1:\d+$")
        self.assertGreater(line["duration_seconds"], 0)
        self.assertLessEqual(line["duration_seconds"], passed)

    def test_a_stream_has_its_line_at_its_end(self):
        body = {**BODY, "stream": True, "stream_options": {"include_usage": True}}
        _, text = self.server.request("POST", "/v1/completions", body, {"X-Request-Id": "a-stream"})
        line = self.line_of("/v1/completions", "a-stream")
        self.assertEqual(line["completion_tokens"], events(text)[-1]["usage"]["completion_tokens"])
        self.assertEqual(line["finish_reason"], "length")

    def test_cached_tokens_of_a_prompt(self):
        prompt = "The little red hen found a grain of wheat. " * 12
        for request_id in ("hen-1", "hen-2"):
            self.server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1}, {"X-Request-Id": request_id})
        first, second = (self.line_of("/v1/completions", request_id) for request_id in ("hen-1", "hen-2"))
        self.assertEqual(first["cached_tokens"], 0)
        self.assertGreater(second["cached_tokens"], 0)
        self.assertLess(second["cached_tokens"], second["prompt_tokens"])

    def test_a_client_that_goes(self):
        connection = self.server.connect()
        connection.request("POST", "/v1/completions", json.dumps({**BODY, "max_tokens": 900, "stream": True}),
                           {"Content-Type": "application/json", "X-Request-Id": "gone"})
        response = connection.getresponse()
        response.read(1)
        response.close()
        connection.close()
        self.server.wait_until(lambda: '"cmpl-gone"' in self.server.text())
        line = self.line_of("/v1/completions", "gone")
        self.assertEqual(line["finish_reason"], "abort")
        self.assertGreater(line["completion_tokens"], 0)
        self.assertLess(line["completion_tokens"], 900)

    def test_a_refusal(self):
        status, _ = self.server.post("/v1/completions", {**BODY, "max_tokens": -1}, {"X-Request-Id": "wrong"})
        line = self.line_of("/v1/completions", "wrong")
        self.assertEqual(line["status"], status)
        self.assertNotIn("completion_tokens", line)

    def test_vectors_have_no_completion(self):
        self.server.post("/tokenize", {"prompt": "a"}, {"X-Request-Id": "tok"})
        line = self.line_of("/tokenize", "tok")
        self.assertEqual(line["request_id"], "tok")
        self.assertNotIn("prompt_tokens", line)

    def test_probes_are_quiet(self):
        for path in ("/health", "/metrics", "/version?probe"):
            self.server.request("GET", path)
        paths = [line.get("path") for line in json_lines(self.server.log_so_far())]
        self.assertNotIn("/health", paths)
        self.assertNotIn("/metrics", paths)
        self.assertIn("/version", paths)

    def test_hostile_bytes_stay_in_their_line(self):
        target = b'/x\xff\x80"}{\\u000a\xe2\x80\xa8?q=\x9b'
        self.server.raw(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.server.wait_until(lambda: "/x\\ufffd" in self.server.text())
        [line] = [line for line in json_lines(self.server.log_so_far()) if line.get("path", "").startswith("/x\ufffd")]
        self.assertEqual(line["path"], target.split(b"?")[0].decode("utf-8", "replace"))
        self.assertTrue(self.server.text().isascii())


class Forms(Case):
    def test_every_line_from_start_to_end_is_json(self):
        server = self.start("--log-format=json", "--trust-remote-code", "--enable-log-requests", "--cudagraph-metrics",
                            VLLM_LOG_STATS_INTERVAL="1", VLLM_NO_SUCH_VARIABLE="1")
        server.post("/v1/completions", BODY)
        server.wait_until(lambda: "Engine 000" in server.text() and "Unpadded Tokens" in server.text())
        self.assertEqual(server.stop(), 0)
        lines = json_lines(server.text())
        messages = "\n".join(line["message"] for line in lines)
        for expected in ("--trust-remote-code has no effect", "Started server process", "Application startup complete.",
                         "VLLM_NO_SUCH_VARIABLE", "Received request cmpl-", "Application shutdown complete."):
            self.assertIn(expected, messages)
        [received] = [line for line in lines if "Received request" in line["message"]]
        self.assertIn(received["request_id"], received["message"])

    def test_a_start_that_fails_says_so_in_json(self):
        done = subprocess.run([serve_test.BINARY, "serve", "/nonexistent", "--log-format", "json"],
                              capture_output=True, text=True, timeout=TIMEOUT)
        self.assertNotEqual(done.returncode, 0)
        lines = json_lines(done.stderr)
        self.assertEqual(lines[-1]["level"], "ERROR")
        self.assertIn("/nonexistent", lines[-1]["message"])

    def test_a_wrong_form_is_refused(self):
        done = subprocess.run([serve_test.BINARY, "serve", serve_test.MODEL, "--log-format", "yaml"],
                              capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--log-format: 'yaml' is not text or json", done.stderr)

    def test_the_level_of_the_server_is_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            with log.open("wb") as file:
                process = subprocess.Popen([serve_test.BINARY, "serve", serve_test.MODEL, "--port", "0",
                                            "--uvicorn-log-level", "warning"], stderr=file, stdout=subprocess.DEVNULL)
                try:
                    deadline = time.monotonic() + TIMEOUT
                    while "Start-up time:" not in log.read_text():
                        self.assertLess(time.monotonic(), deadline, log.read_text())
                        time.sleep(0.05)
                finally:
                    process.terminate()
                    process.wait(TIMEOUT)
            self.assertNotIn("Started server process", log.read_text())

    def test_a_configuration_of_pythons_logging(self):
        with tempfile.TemporaryDirectory() as folder:
            config, log = Path(folder) / "log.json", Path(folder) / "server.log"
            config.write_text(json.dumps({
                "version": 1,
                "formatters": {"json": {"class": "pythonjsonlogger.jsonlogger.JsonFormatter"}},
                "handlers": {"file": {"class": "logging.FileHandler", "filename": str(log), "formatter": "json"}},
                "loggers": {"vllm": {"handlers": ["file"], "level": "WARNING"}, "uvicorn": {"level": "INFO"}},
            }))
            process = subprocess.Popen([serve_test.BINARY, "serve", serve_test.MODEL, "--port", "0"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                       env={**os.environ, "VLLM_LOGGING_CONFIG_PATH": str(config)})
            deadline = time.monotonic() + TIMEOUT
            while not log.exists() or "Application startup complete." not in log.read_text():
                self.assertLess(time.monotonic(), deadline)
                self.assertIsNone(process.poll())
                time.sleep(0.05)
            process.terminate()
            _, errors = process.communicate(timeout=TIMEOUT)
            messages = "\n".join(line["message"] for line in json_lines(log.read_text()))
        self.assertEqual(errors, "")
        self.assertNotIn("Loading weights took", messages)  # below WARNING
        self.assertIn("Application shutdown complete.", messages)

    def test_a_configuration_that_cannot_be_honoured_is_refused_by_name(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"version": 1, "handlers": {"h": {"class": "logging.handlers.SocketHandler"}},
                       "root": {"handlers": ["h"]}}, file)
            file.flush()
            done = subprocess.run([serve_test.BINARY, "serve", serve_test.MODEL, "--log-config-file", file.name],
                                  capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 2)
        self.assertIn("handlers.h.class: 'logging.handlers.SocketHandler' is not supported", done.stderr)

    def test_hostile_text_forges_no_line(self):
        server = self.start()
        server.raw(b'GET /\x1b[31m" 200 OK HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
        server.raw(b'GET /a"b\xc2\x9bc HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
        server.wait_until(lambda: '/a\\"b\\xc2\\x9bc HTTP/1.1" 4' in server.text())
        self.assertNotIn("\x1b", server.text())
        self.assertTrue(all(re.match(r"(INFO|WARNING|ERROR) \d\d-\d\d |    |warning: ", line) or "oading" in line
                            for line in server.text().splitlines()), server.text())


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1], verbosity=2)
