#!/usr/bin/env python3
"""`reprise bench latency | throughput | startup | sweep`, and the pages of plots.

    bench_commands_test.py REPRISE_BINARY MODEL_FOLDER

Uses only Python's standard library.
"""

import collections
import json
import os
import pty
import re
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree
from pathlib import Path

import serve_test
from recording_proxy import percentile

BINARY = MODEL = None
TIMEOUT = 200


class BenchCommands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def bench(self, *arguments, expect=0):
        run = subprocess.run([BINARY, "bench", *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT,
                             check=False)
        self.assertEqual(run.returncode, expect, run.stdout + run.stderr)
        return run

    def assert_is_a_page(self, path, num_charts):
        text = path.read_text(encoding="utf-8")
        charts = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
        self.assertEqual(len(charts), num_charts)
        for chart in charts:
            tree = xml.etree.ElementTree.fromstring(chart)
            for circle in tree.iter("{http://www.w3.org/2000/svg}circle"):
                self.assertTrue(0 <= float(circle.get("cx")) <= 720)
                self.assertTrue(0 <= float(circle.get("cy")) <= 300)
        self.assertNotIn("nan", text)
        self.assertNotRegex(text, r"<script|src=|https?://(?!www\.w3\.org)")

    def test_latency(self):
        output = self.folder / "latency.json"
        run = self.bench("latency", MODEL, "--input-len", 8, "--output-len", 4, "--batch-size", 2, "--num-iters", 5,
                         "--num-iters-warmup", 1, "--temperature", 0, "--output-json", output)
        result = json.loads(output.read_text(encoding="utf-8"))
        self.assertEqual(len(result["latencies"]), 5)
        self.assertEqual(len(result["first_token_latencies"]), 5)
        for first, whole in zip(result["first_token_latencies"], result["latencies"]):
            self.assertGreater(first, 0)
            self.assertLess(first, whole)
        self.assertAlmostEqual(result["avg_latency"], statistics.fmean(result["latencies"]), places=12)
        self.assertEqual(list(result["percentiles"]), ["10", "25", "50", "75", "90", "99"])
        for percent, value in result["percentiles"].items():
            self.assertAlmostEqual(value, percentile(result["latencies"], int(percent)), places=12)
        self.assertRegex(run.stdout, r"^Avg latency: [\d.e-]+ seconds\n10% percentile latency: ")
        self.assertNotIn("warning", run.stderr)

    def test_the_warnings_of_a_start_are_printed(self):
        for kind in (("latency", "--num-iters", 1, "--num-iters-warmup", 0), ("throughput", "--num-prompts", 1)):
            run = self.bench(kind[0], MODEL, "--input-len", 4, "--output-len", 2, "--enforce-eager", *kind[1:])
            self.assertIn("warning: enforce_eager is set", run.stderr)

    def test_throughput(self):
        output = self.folder / "throughput.json"
        run = self.bench("throughput", MODEL, "--num-prompts", 20, "--input-len", 16, "--output-len", 6,
                         "--output-json", output)
        result = json.loads(output.read_text(encoding="utf-8"))
        self.assertEqual((result["num_requests"], result["total_num_tokens"]), (20, 20 * 22))
        self.assertAlmostEqual(result["tokens_per_second"], 440 / result["elapsed_time"])
        self.assertRegex(run.stdout, r"^Throughput: [\d.]+ requests/s, [\d.]+ total tokens/s, [\d.]+ output tokens/s\n"
                                     r"Total num prompt tokens:  320\nTotal num output tokens:  120\n$")
        run = self.bench("throughput", MODEL, "--num-prompts", 1, "--input-len", 1024, expect=2)
        self.assertIn("max_model_len", run.stderr)

    def test_startup(self):
        output = self.folder / "startup.json"
        run = self.bench("startup", MODEL, "--num-iters-cold", 1, "--num-iters-warm", 2, "--output-json", output)
        result = json.loads(output.read_text(encoding="utf-8"))
        self.assertEqual((len(result["cold_startup_times"]), len(result["warm_startup_times"])), (1, 2))
        for phase in ("cold", "warm"):
            self.assertGreater(result[f"avg_{phase}_startup_time"], result[f"avg_{phase}_weights_time"])
            self.assertAlmostEqual(result[f"avg_{phase}_compilation_time"],
                                   statistics.fmean(result[f"{phase}_compilation_times"]))
        for title in ("STARTUP TIME BENCHMARK RESULTS", "COLD STARTUP:", "WARM STARTUP:"):
            self.assertIn(title, run.stdout)
        self.assertIn("nowhere", self.bench("startup", "nowhere", "--num-iters-cold", 1, expect=1).stderr)

    def test_sweep(self):
        loads = self.folder / "loads.json"
        loads.write_text('{"slow": {"request_rate": 20}, "fast": {"request_rate": 200}}', encoding="utf-8")
        options = ("--serve-cmd", f"reprise serve '{MODEL}' --kv-cache-memory-bytes 64M", "--bench-cmd",
                   "vllm bench serve --num-prompts 6 --random-input-len 8 --random-output-len 5", "--serve-params",
                   '[{"max_num_seqs": 2}, {"enforce_eager": true}]', "--bench-params", loads, "--num-runs", 2,
                   "--output-dir", self.folder)
        self.assertEqual(len(self.bench("sweep", "serve", *options, "--dry-run").stdout.splitlines()), 6)
        run = self.bench("sweep", *options)
        summary = json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))
        self.assertEqual([(point["serve"], point["bench"]) for point in summary["points"]],
                         [("max_num_seqs=2", "slow"), ("max_num_seqs=2", "fast"), ("enforce_eager=true", "slow"),
                          ("enforce_eager=true", "fast")])
        for point in summary["points"]:
            self.assertEqual([one["completed"] for one in point["runs"]], [6, 6])
        rates = [point["runs"][0]["request_rate"] for point in summary["points"]]
        self.assertEqual(rates, [20, 200, 20, 200])
        slow = [one["output_throughput"] for one in summary["points"][0]["runs"]]
        shown = re.search(r"\| Output token throughput \(tok/s\) \| ([\d.]+) \(([\d.]+)\.\.([\d.]+)\)", run.stdout)
        for text, value in zip(shown.groups(), (statistics.median(slow), min(slow), max(slow))):
            self.assertAlmostEqual(float(text), value, delta=0.00501)
        self.assert_is_a_page(self.folder / "sweep.html", 4)

    def test_preset_takes_turns(self):
        run = self.bench("sweep", "--preset", "cudagraph-modes", "--serve-cmd", "m", "--dry-run")
        self.assertEqual(re.findall(r'"cudagraph_mode":"(\w+)"', run.stdout), ["NONE", "PIECEWISE", "FULL_AND_PIECEWISE"])
        run = self.bench("sweep", "--preset", "cudagraph-modes", "--num-runs", 2, "--output-dir", self.folder, "--serve-cmd",
                         f"serve '{MODEL}' --kv-cache-memory-bytes 64M", "--bench-cmd",
                         "--num-prompts 3 --random-input-len 8 --random-output-len 5")
        turns = re.findall(r"^(\w+), default, run (\d)", run.stderr, re.MULTILINE)
        self.assertEqual(turns, [("NONE", "1"), ("PIECEWISE", "1"), ("FULL_AND_PIECEWISE", "1"),
                                 ("PIECEWISE", "2"), ("FULL_AND_PIECEWISE", "2"), ("NONE", "2")])
        self.assertIn("| NONE | PIECEWISE | FULL_AND_PIECEWISE |", run.stdout)

    def test_the_preset_of_capture_sizes_shows_the_graphs_of_both_rules(self):
        run = self.bench("sweep", "--preset", "capture-sizes", "--serve-cmd", "m", "--dry-run")
        self.assertEqual(re.findall(r'"capture_size_rule":"(\w+)"', run.stdout), ["reprise", "measured"])
        self.assertEqual(run.stdout.count("--max-concurrency"), 16)
        run = self.bench("sweep", "--preset", "capture-sizes", "--num-runs", 1, "--output-dir", self.folder, "--serve-cmd",
                         f"serve '{MODEL}' --kv-cache-memory-bytes 64M --max-num-seqs 5 --max-num-batched-tokens 16",
                         "--bench-cmd", "--num-prompts 3 --random-input-len 8 --random-output-len 5",
                         "--bench-params", '[{"max_concurrency": 1}, {"max_concurrency": 3}]')
        token_times, graphs = run.stdout.split("Mean TPOT (ms) by load")[1].split("Graphs of the servers")
        self.assertEqual(re.findall(r"^\| (max_concurrency=\d) \| [\d.]+ \(", token_times, re.MULTILINE),
                         ["max_concurrency=1", "max_concurrency=3"])
        self.assertIn("| Requests of FULL decode graphs | 1 2 4 5 |", graphs)
        self.assertIn("| Tokens of other graphs | 1 2 4 8 |", graphs)
        kept, dropped = (int(re.search(rf"\| {title} \| \d+ \| (\d+) \|", graphs)[1])
                         for title in ("Graphs", "Dropped, because they save no time"))
        self.assertEqual(kept + dropped, 5 + 16)
        summary = json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))
        states = collections.Counter(key["state"] for key in summary["graphs"]["measured"]["keys"])
        self.assertEqual(states, collections.Counter({"captured": kept, "dropped": dropped}))

    def test_servers_take_turns_when_asked_to(self):
        options = ("--serve-cmd", f"serve '{MODEL}' --kv-cache-memory-bytes 64M", "--bench-cmd",
                   "--num-prompts 2 --random-input-len 8 --random-output-len 3", "--output-dir", self.folder)
        run = self.bench("sweep", *options, "--num-runs", 1, "--interleave", "--show-stdout", "--server-ready-timeout", 60)
        self.assertIn("Serving Benchmark Result", run.stderr)
        self.assertIn("servers taking turns", run.stdout + run.stderr)
        run = self.bench("sweep", *options, "--num-runs", 1, "--server-ready-timeout", 0, expect=1)
        self.assertIn("was not ready in time", run.stderr)

    def test_one_start_prints_its_times(self):
        times = json.loads(self.bench("startup", MODEL, "--one-start").stdout)
        self.assertTrue(all(value >= 0 for value in times.values() if isinstance(value, (int, float))), times)

    def test_bad_sweeps(self):
        for options, word in (((), "--serve-cmd"), (("--preset", "x", "--serve-cmd", "m"), "--preset"),
                              (("--serve-cmd", "m 'x"), "--serve-cmd"),
                              (("--serve-cmd", "m", "--serve-params", "[3]"), "--serve-params")):
            self.assertIn(word, self.bench("sweep", *options, expect=2).stderr)
        run = self.bench("sweep", "--serve-cmd", "nowhere", "--output-dir", self.folder, expect=1)
        self.assertIn("did not start", run.stderr)
        self.assertIn("nowhere", run.stderr)

    def test_plots_of_runs_without_a_server(self):
        """The names of the series and the number of points of each are those of the run."""
        sizes = ("--input-len", 8, "--output-len", 4, "--batch-size", 2, "--num-iters-warmup", 0)
        page = self.folder / "page.html"
        modes = ("NONE", "FULL")
        for arguments, num_charts, names in (
            (("modes", MODEL, *sizes, "--num-iters", 3, "--modes", ",".join(modes), "--plot", page), 3, modes),
            (("latency", MODEL, *sizes, "--num-iters", 4, "--plot", page), 2, ("whole", "first token")),
            (("throughput", MODEL, "--num-prompts", 5, "--random-input-len", 8, "--random-output-len", 4, "--plot", page), 2,
             ("requests", "tokens")),
        ):
            with self.subTest(command=arguments[0]):
                self.bench(*arguments)
                self.assert_is_a_page(page, num_charts)
                for name in names:
                    self.assertIn(f">{name}</text>", page.read_text(encoding="utf-8"))
                page.unlink()
        done = subprocess.run([BINARY, "eval", MODEL, "--limit", "3", "--plot", str(page)], capture_output=True, text=True,
                              timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_is_a_page(page, 1)
        self.assertIn(">FULL_AND_PIECEWISE</text>", page.read_text(encoding="utf-8"))
        for command in (("bench", "modes"), ("bench", "latency"), ("bench", "throughput"), ("eval",)):
            done = subprocess.run([BINARY, *command, MODEL, "--plot", "/nonexistent/page.html"], capture_output=True,
                                  text=True, timeout=TIMEOUT, check=False)
            self.assertEqual(done.returncode, 2, (command, done.stderr))
            self.assertIn("--plot", done.stderr)

    def test_long_work_is_shown_on_a_terminal_and_not_elsewhere(self):
        arguments = [BINARY, "bench", "latency", MODEL, "--input-len", "8", "--output-len", "200", "--batch-size", "4",
                     "--num-iters-warmup", "0", "--num-iters", "40"]
        primary, secondary = pty.openpty()
        with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=secondary) as process:
            os.close(secondary)
            shown = bytearray()
            began = time.monotonic()
            while True:
                try:
                    piece = os.read(primary, 65536)
                except OSError:  # the end, on Linux
                    break
                if not piece:
                    break
                shown += piece
            passed = time.monotonic() - began
        os.close(primary)
        self.assertEqual(process.returncode, 0, shown)
        frames = re.findall(rb"\r\x1b\[KBatches: \[[#.]{20}\] (\d+)/40[^\r]*", bytes(shown))
        self.assertGreater(len(frames), 0, shown)
        self.assertLessEqual(len(frames), 10 * passed + 2)
        self.assertEqual(frames, sorted(frames, key=int))
        self.assertNotIn("Batches", self.bench(*arguments[2:]).stderr)

    def test_plot_of_a_run(self):
        serve_test.BINARY, serve_test.MODEL = BINARY, MODEL
        server = serve_test.Server()
        self.addCleanup(server.stop)
        page = self.folder / "run.html"
        self.bench("serve", "--port", server.port, "--tokenizer", MODEL, "--num-prompts", 8, "--random-input-len", 8,
                   "--random-output-len", 9, "--plot", page)
        self.assert_is_a_page(page, 6)
        self.assertIn("Mean TTFT", page.read_text(encoding="utf-8"))


if __name__ == "__main__":
    BINARY, MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2, warnings="ignore")
