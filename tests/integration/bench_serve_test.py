#!/usr/bin/env python3
"""`reprise bench serve` beside an independent client, on recomputed figures, and on bad servers.

    bench_serve_test.py REPRISE_BINARY MODEL_FOLDER

Uses only Python's standard library.
"""

import collections
import http.server
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import serve_test
from recording_proxy import RecordingProxy, distribution

BINARY = MODEL = None
TIMEOUT = 300
PERCENTS = (50, 90, 99)


def bench(port, *options, folder=None, expect=0):
    """Runs the benchmark; returns its block, its JSON (with `folder`) and the finished process."""
    command = [BINARY, "bench", "serve", "--port", str(port), "--tokenizer", MODEL, "--disable-tqdm", *map(str, options)]
    if folder:
        command += ["--save-result", "--save-detailed", "--result-dir", folder, "--result-filename", "result.json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert run.returncode == expect, (run.returncode, run.stdout, run.stderr)
    result = json.loads(Path(folder, "result.json").read_text(encoding="utf-8")) if folder else None
    return run.stdout, result, run


def rows(block):
    """The block as scripts read it: name -> number."""
    return {match[1]: float(match[2]) for match in re.finditer(r"^(.+?):\s+([\d.]+)\s*$", block, re.MULTILINE)}


class WithServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        serve_test.BINARY, serve_test.MODEL = BINARY, MODEL
        cls.server = serve_test.Server()
        cls.port = cls.server.port

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_agrees_with_an_independent_client(self):
        """Every figure within 2 %. Both sides are on a machine with other work, and what one of them
        is late for the other is not: a wrong definition fails in all attempts, a hiccup in one."""
        failures = []
        for _ in range(4):
            proxy = RecordingProxy(self.port, first_delay=0.8, gap=0.12)
            try:
                _, result, _ = bench(
                    proxy.port, "--num-prompts", 12, "--max-concurrency", 4, "--random-input-len", 32,
                    "--random-output-len", 7, "--random-range-ratio", 0.4, "--percentile-metrics", "ttft,tpot,itl,e2el",
                    "--metric-percentiles", ",".join(map(str, PERCENTS)), folder=self.folder)
                seen = proxy.figures(PERCENTS)
            finally:
                proxy.close()
            # The spread of evenly spaced gaps is only jitter.
            seen.pop("std_itl_ms"), seen.pop("std_tpot_ms"), seen.pop("std_ttft_ms")
            wrong = {name: (result[name], value) for name, value in seen.items()
                     if abs(result[name] - value) > 0.02 * value}
            if not wrong:
                self.assertEqual(result["completed"], 12)
                self.assertGreater(len(seen), 20)
                return
            failures.append(wrong)
        self.fail(f"figures differ by more than 2 %: {failures}")

    def test_the_default_load_of_1000_requests_at_once_loses_none(self):
        """The number of requests and their rate are the defaults of both sides. Only lengths are short."""
        _, result, _ = bench(self.port, "--random-input-len", 8, "--random-output-len", 2, "--ignore-eos",
                             folder=self.folder)
        self.assertEqual((result["num_prompts"], result["completed"], result["failed"]), (1000, 1000, 0))
        self.assertEqual(result["request_rate"], "inf")
        self.assertEqual(result["total_output_tokens"], 2000)

    def test_figures_follow_from_the_requests(self):
        """No clock of ours: what is reported is recomputed from what each request measured."""
        block, result, _ = bench(
            self.port, "--num-prompts", 40, "--request-rate", 200, "--max-concurrency", 12, "--random-input-len", 24,
            "--random-output-len", 20, "--random-range-ratio", 0.5, "--percentile-metrics",
            "ttft,tpot,itl,e2el,client_queue_time", "--metric-percentiles", "25,99,99.9", "--goodput", "ttft:1000",
            "e2el:60000", "--metadata", "build=x", "who=me", folder=self.folder)
        percents = (25, 99, 99.9)
        lens, ttfts, latencies = result["output_lens"], result["ttfts"], result["latencies"]
        expected = {}
        for name, values in {
            "ttft": ttfts, "e2el": latencies, "itl": [gap for gaps in result["itls"] for gap in gaps],
            "tpot": [(latency - ttft) / (n - 1) for latency, ttft, n in zip(latencies, ttfts, lens) if n > 1],
            "client_queue_time": result["queue_times"],
        }.items():
            expected.update(distribution(name, values, percents))
        duration = result["duration"]
        expected.update(
            completed=40, failed=0, total_input_tokens=sum(result["input_lens"]), total_output_tokens=sum(lens),
            request_throughput=40 / duration, request_goodput=40 / duration, output_throughput=sum(lens) / duration,
            total_token_throughput=(sum(lens) + sum(result["input_lens"])) / duration)
        for name, value in expected.items():
            self.assertAlmostEqual(result[name], value, delta=1e-9 + 1e-9 * abs(value), msg=name)
        begin = min(result["start_times"])
        buckets = collections.Counter(
            int(moment - begin) for start, ttft, gaps in zip(result["start_times"], ttfts, result["itls"])
            for moment in itertools.accumulate([start + ttft, *gaps]))
        self.assertEqual(result["max_output_tokens_per_s"], max(buckets.values()))
        events = sorted([(s, 1) for s in result["start_times"]] +
                        [(s + l, -1) for s, l in zip(result["start_times"], latencies)])
        running = peak = 0
        for _, change in events:
            running += change
            peak = max(peak, running)
        self.assertEqual(result["max_concurrent_requests"], peak)
        self.assertLessEqual(peak, 12)
        for latency, ttft, gaps in zip(latencies, ttfts, result["itls"]):
            self.assertAlmostEqual(latency, ttft + sum(gaps), places=9)
        shown = rows(block)
        for row, name in {
            "Successful requests": "completed", "Failed requests": "failed", "Benchmark duration (s)": "duration",
            "Total input tokens": "total_input_tokens", "Total generated tokens": "total_output_tokens",
            "Request goodput (req/s)": "request_goodput", "Output token throughput (tok/s)": "output_throughput",
            "Peak output token throughput (tok/s)": "max_output_tokens_per_s", "Peak concurrent requests":
            "max_concurrent_requests", "Total token throughput (tok/s)": "total_token_throughput",
            "Mean TTFT (ms)": "mean_ttft_ms", "P99.9 ITL (ms)": "p99.9_itl_ms", "Median E2EL (ms)": "median_e2el_ms",
        }.items():
            self.assertAlmostEqual(shown[row], result[name], delta=0.00501, msg=row)
        self.assertEqual(shown["Request rate configured (RPS)"], 200)
        self.assertEqual((result["build"], result["who"], result["request_rate"]), ("x", "me", 200.0))

    def test_lengths_are_those_the_server_counts(self):
        proxy = RecordingProxy(self.port)
        self.addCleanup(proxy.close)
        _, result, _ = bench(proxy.port, "--num-prompts", 10, "--random-input-len", 50, "--random-output-len", 9,
                             folder=self.folder)
        self.assertEqual(result["input_lens"], [50] * 10)
        self.assertEqual(result["output_lens"], [9] * 10)
        self.assertEqual([len(gaps) for gaps in result["itls"]], [8] * 10)

    def test_chat_and_the_file_datasets(self):
        jsonl = Path(self.folder, "prompts.jsonl")
        jsonl.write_text("".join(json.dumps({"prompt": f"What is {n} + 4?"}) + "\n" for n in range(6)), encoding="utf-8")
        _, result, _ = bench(self.port, "--backend", "openai-chat", "--dataset-name", "custom", "--dataset-path", jsonl,
                             "--num-prompts", 6, "--custom-output-len", 12, "--temperature", 0, folder=self.folder)
        self.assertEqual((result["completed"], result["backend"]), (6, "openai-chat"))
        self.assertTrue(all(result["generated_texts"]))
        poem = Path(self.folder, "poem.txt")
        poem.write_text("The dog ran to the tree.\n" * 30, encoding="utf-8")
        bench(self.port, "--dataset-name", "sonnet", "--dataset-path", poem, "--num-prompts", 3, "--sonnet-input-len",
              120, "--sonnet-prefix-len", 60, "--sonnet-output-len", 5)
        bench(self.port, "--dataset-name", "prefix_repetition", "--num-prompts", 6, "--prefix-repetition-num-prefixes", 2,
              "--prefix-repetition-prefix-len", 30, "--prefix-repetition-suffix-len", 9,
              "--prefix-repetition-output-len", 4)

    def test_a_trace_is_sent_at_its_times(self):
        trace = Path(self.folder, "trace.jsonl")
        lines = [{"at": 1000 + ms, "in": 20, "out": out, "chunks": [7, chunk]} for ms, out, chunk in ((0, 3, 1), (900, 5, 2), (400, 4, 3))]
        trace.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        options = ("--dataset-name", "timed_trace", "--dataset-path", trace, "--ignore-eos", "--timed-trace-chunk-hash-size", 10,
                   "--timed-trace-sec-multiplier", 0.001, "--timed-trace-label-timestamp", "at", "--timed-trace-label-input-length", "in",
                   "--timed-trace-label-output-length", "out", "--timed-trace-label-hash-ids", "chunks")
        _, result, run = bench(self.port, *options, "--num-prompts", 9, folder=self.folder)
        self.assertEqual((result["completed"], result["output_lens"]), (3, [3, 4, 5]))
        self.assertGreaterEqual(result["duration"], 0.9)
        self.assertIn("at the times of the dataset", run.stderr + run.stdout)
        _, result, _ = bench(self.port, *options, "--num-prompts", 3, "--no-self-timed", "--request-rate", 100, folder=self.folder)
        self.assertEqual(result["completed"], 3)
        for wrong, word in ((("--self-timed",), "--self-timed"), ((*options, "--request-rate", 5), "--no-self-timed")):
            _, _, run = bench(self.port, *wrong, expect=2)
            self.assertIn(word, run.stderr)

    def test_append_result_writes_one_object_per_line(self):
        for _ in range(2):
            bench(self.port, "--num-prompts", 2, "--random-input-len", 8, "--random-output-len", 2, "--append-result",
                  "--result-dir", self.folder, "--result-filename", "all.json")
        lines = Path(self.folder, "all.json").read_text(encoding="utf-8").splitlines()
        self.assertEqual([json.loads(line)["completed"] for line in lines], [2, 2])

    def test_names_the_file_as_vllm_does(self):
        bench(self.port, "--num-prompts", 1, "--random-input-len", 8, "--random-output-len", 2, "--save-result",
              "--result-dir", self.folder, "--max-concurrency", 3, "--label", "mine")
        (name,) = [path.name for path in Path(self.folder).iterdir()]
        self.assertRegex(name, r"^mine-infqps-concurrency3-tiny-\d{8}-\d{6}\.json$")

    def test_sixty_streams_at_once_after_a_warm_up(self):
        _, result, _ = bench(self.port, "--num-prompts", 60, "--random-input-len", 8, "--random-output-len", 30,
                             "--num-warmups", 3, "--ready-check-timeout-sec", 20, folder=self.folder)
        self.assertEqual((result["completed"], result["failed"]), (60, 0))


class BadServer(http.server.ThreadingHTTPServer):
    """Answers the n-th completion in the n-th of `ways`."""

    daemon_threads = True

    def __init__(self, *ways):
        super().__init__(("127.0.0.1", 0), Handler)
        self.ways, self.bodies, self.lock = list(ways), [], threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def port(self):
        return self.server_address[1]


def chunk(**fields):
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


GOOD = chunk(choices=[{"text": "The dog"}], usage=None) + chunk(choices=[{"text": " ran home."}], usage=None)
USAGE = chunk(choices=[], usage={"prompt_tokens": 5, "completion_tokens": 7})
DONE = b"data: [DONE]\n\n"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.bodies.append((body, dict(self.headers)))
            status, stream, is_whole = self.server.ways.pop(0)
        self.send_response(status)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if stream:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(stream), stream))
        if is_whole:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = not is_whole


class OverTls(unittest.TestCase):
    """A real certificate, which nobody but SSL_CERT_FILE vouches for."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.certificate = f"{self.folder}/server.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=DNS:localhost", "-keyout", f"{self.folder}/server.key",
             "-out", self.certificate], check=True, capture_output=True)
        serve_test.BINARY, serve_test.MODEL = BINARY, MODEL
        self.server = serve_test.Server("--ssl-certfile", self.certificate, "--ssl-keyfile", f"{self.folder}/server.key")
        self.addCleanup(self.server.stop)

    def run_bench(self, host, *options, **environment):
        command = [BINARY, "bench", "serve", "--base-url", f"https://{host}:{self.server.port}", "--tokenizer", MODEL,
                   "--num-prompts", "6", "--random-input-len", "8", "--random-output-len", "5", "--disable-tqdm"]
        run = subprocess.run([*command, *options], capture_output=True, text=True, timeout=TIMEOUT, check=False,
                             env={**os.environ, **environment})
        return run.returncode, run.stdout, run.stderr

    def test_a_trusted_server_is_measured(self):
        code, out, err = self.run_bench("localhost", SSL_CERT_FILE=self.certificate)
        self.assertEqual((code, rows(out).get("Successful requests")), (0, 6), err)

    def test_a_certificate_must_be_known_and_of_that_host(self):
        for host, environment in (("localhost", {}), ("127.0.0.1", {"SSL_CERT_FILE": self.certificate})):
            with self.subTest(host):
                code, _, err = self.run_bench(host, **environment)
                self.assertEqual(code, 1, err)
                self.assertIn("certificate verify failed", err)
                code, out, err = self.run_bench(host, "--insecure", **environment)
                self.assertEqual((code, rows(out).get("Successful requests")), (0, 6), err)


class BadServers(unittest.TestCase):
    def run_against(self, *ways, expect=0, options=()):
        server = BadServer(*ways)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        with tempfile.TemporaryDirectory() as folder:
            _, result, run = bench(server.port(), "--model", "any", "--num-prompts", len(ways), "--max-concurrency", 1,
                                   "--random-input-len", 8, "--random-output-len", 4, *options, folder=folder,
                                   expect=expect)
        return server, result, run

    def test_failures_are_counted_and_named(self):
        _, result, run = self.run_against(
            (200, GOOD + USAGE + DONE, True),
            (500, b"out of luck", True),
            (200, GOOD, False),
            (200, GOOD + chunk(error={"message": "the device is lost", "code": 500}) + DONE, True),
            (200, DONE, True),
            (200, b"data: {nonsense\n\n", True),
            (200, GOOD + USAGE + DONE, True))
        self.assertEqual((result["completed"], result["failed"]), (2, 5))
        self.assertEqual(result["total_output_tokens"], 14)
        for error, expected in zip(result["errors"][1:6], ("500 .*out of luck", "closed the connection",
                                                           "the device is lost", "without any choice", "is not JSON")):
            self.assertRegex(error, expected)
        self.assertIn("Failed requests during benchmark run detected", run.stderr)

    def test_without_usage_the_text_is_tokenized(self):
        _, result, _ = self.run_against((200, GOOD + DONE, True))
        self.assertGreaterEqual(result["output_lens"][0], 4)
        self.assertLess(result["output_lens"][0], len("The dog ran home."))

    def test_all_failed_is_an_error(self):
        _, _, run = self.run_against((503, b"", True), expect=1)
        self.assertIn("all requests failed", run.stderr)

    def test_sends_what_vllm_sends(self):
        server, _, _ = self.run_against(
            (200, GOOD + USAGE + DONE, True),
            options=("--temperature", 0.5, "--top-k", 5, "--extra-body", '{"x": [1]}', "--header", "x-a=b", "x-c=d",
                     "--request-id-prefix", "id-"))
        ((body, headers),) = server.bodies
        self.assertEqual(list(body), ["model", "prompt", "repetition_penalty", "max_tokens", "logprobs", "stream",
                                      "stream_options", "ignore_eos", "x", "temperature", "top_k"])
        self.assertEqual((body["stream"], body["stream_options"], body["max_tokens"], body["top_k"], body["x"]),
                         (True, {"include_usage": True}, 4, 5, [1]))
        self.assertEqual((headers["x-a"], headers["x-c"], headers["x-request-id"]), ("b", "d", "id-0"))

    def test_bad_options_are_refused(self):
        for options, word in (
            (("--request-rate", "0"), "--request-rate"), (("--goodput", "ttfx:3"), "--goodput"),
            (("--backend", "tgi"), "--backend"), (("--endpoint", "/v1/chat/completions"), "--endpoint"),
            (("--base-url", "ftp://x"), "--base-url"), (("--base-url", "x:1"), "--base-url"),
            (("--percentile-metrics", "ttftt"), "ttft"), (("--metric-percentiles", "101"), "--metric-percentiles"),
            (("--dataset-name", "radom"), "random"), (("--dataset-path", "x"), "--dataset-path"),
            (("--metadata", "x"), "--metadata"), (("--max-concurrency", "0"), "--max-concurrency"),
            (("--tokenizer", "nowhere"), "--tokenizer"), (("--ramp-up-strategy", "linear"), "--ramp-up"),
        ):
            with self.subTest(options):
                _, _, run = bench(9, "--model", "any", *options, expect=2)
                self.assertIn(word, run.stderr)
                self.assertEqual(run.stdout, "")

    def test_no_server_is_an_error(self):
        _, _, run = bench(9, expect=1)
        self.assertIn("127.0.0.1:9", run.stderr)


if __name__ == "__main__":
    BINARY, MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2, warnings="ignore")
