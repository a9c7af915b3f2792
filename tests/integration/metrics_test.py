#!/usr/bin/env python3
"""What /metrics says, against a client that counts for itself; the dashboard and the reference.

    metrics_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER

Uses only Python's standard library, and promtool where it is installed.
"""

import json
import re
import shutil
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import serve_test

SOURCE = None
SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,|$)')
# promtool's findings about names that vLLM's users depend on, and about Reprise's names that follow the same pattern.
KNOWN_FINDINGS = re.compile(r"metric names should not contain ':'|^vllm:iteration_tokens_total non-counter metrics")


class Page:
    """Prometheus text, parsed strictly."""

    def __init__(self, text):
        self.types, self.samples = {}, {}
        family = None
        for line in text.splitlines():
            if line.startswith("# HELP "):
                family, help_text = line[7:].split(" ", 1)
                assert family not in self.types and help_text, line
            elif line.startswith("# TYPE "):
                name, kind = line[7:].split(" ")
                assert name == family, line
                self.types[name] = kind
            else:
                name, labels, value = SAMPLE.fullmatch(line).groups()
                assert self.family(name) == family, line
                labels = labels or ""
                assert "".join(match[0] for match in LABEL.finditer(labels)) == labels, line
                key = name, tuple(sorted(LABEL.findall(labels)))
                assert key not in self.samples, line
                self.samples[key] = float(value)

    def family(self, name):
        if name in self.types:
            return name
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        return base if self.types.get(base) in ("histogram", "summary") else None

    def labels_of(self, name):
        return {label for (sample, labels) in self.samples if sample == name for label, _ in labels}

    def value(self, name, **wanted):
        found = [value for (sample, labels), value in self.samples.items()
                 if sample == name and wanted.items() <= dict(labels).items()]
        assert found, (name, wanted)
        return sum(found)

    def buckets(self, name):
        return [(dict(labels)["le"], value) for (sample, labels), value in self.samples.items()
                if sample == name + "_bucket"]


def scrape(server):
    response, text = server.request("GET", "/metrics")
    assert response.status == 200
    return text.decode(), Page(text.decode())


class Client(threading.Thread):
    """Streams requests and counts what it gets."""

    def __init__(self, server, bodies):
        super().__init__()
        self.server, self.bodies, self.answers = server, bodies, []

    def run(self):
        for body in self.bodies:
            connection = self.server.connect()
            began = time.monotonic()
            connection.request("POST", "/v1/completions", json.dumps({
                **body, "stream": True, "stream_options": {"include_usage": True}}),
                {"Content-Type": "application/json"})
            first, reasons, usage = None, [], None
            for line in connection.getresponse():
                if not line.startswith(b"data: {"):
                    continue
                chunk = json.loads(line[6:])
                usage = chunk.get("usage") or usage
                if chunk["choices"]:
                    first = first or time.monotonic() - began
                    reasons += [choice["finish_reason"] for choice in chunk["choices"] if choice["finish_reason"]]
            connection.close()
            self.answers.append({"first": first, "all": time.monotonic() - began, "reasons": reasons, **usage})


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = serve_test.Server("--max-model-len", "256", VLLM_LOG_STATS_INTERVAL="1")
        _, cls.before = scrape(cls.server)
        bodies = [{"prompt": "word " * (1 + 7 * i % 40), "max_tokens": 1 + 11 * i % 30, "temperature": 1, "seed": i,
                   "ignore_eos": True, "n": 1 + i % 2} for i in range(24)]
        clients = [Client(cls.server, bodies[i::4]) for i in range(4)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        cls.bodies = bodies
        cls.answers = [answer for client in clients for answer in client.answers]
        cls.text, cls.page = scrape(cls.server)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def grown(self, name, **labels):
        return self.page.value(name, **labels) - self.before.value(name, **labels)

    def test_counters_are_what_the_client_counted(self):
        num_choices = sum(len(answer["reasons"]) for answer in self.answers)
        self.assertEqual(len(self.answers), 24)
        self.assertEqual(num_choices, sum(body["n"] for body in self.bodies))
        for reason in ("stop", "length", "abort", "error"):
            counted = sum(answer["reasons"].count(reason) for answer in self.answers)
            self.assertEqual(self.grown("vllm:request_success_total", finished_reason=reason), counted)
        generated = sum(answer["completion_tokens"] for answer in self.answers)
        # The usage of an answer counts its prompt once, but the engine computes the prompt for each choice.
        prompted = sum(answer["prompt_tokens"] * len(answer["reasons"]) for answer in self.answers)
        self.assertEqual(self.grown("vllm:generation_tokens_total"), generated)
        self.assertEqual(self.grown("vllm:prompt_tokens_total"), prompted)
        self.assertEqual(self.grown("vllm:request_generation_tokens_sum"), generated)
        self.assertEqual(self.grown("vllm:request_prompt_tokens_sum"), prompted)
        self.assertEqual(self.grown("vllm:inter_token_latency_seconds_count"), generated - num_choices)
        for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds",
                     "request_prefill_time_seconds", "request_decode_time_seconds", "request_prompt_tokens",
                     "request_inference_time_seconds", "request_time_per_output_token_seconds",
                     "request_params_max_tokens"):
            self.assertEqual(self.grown(f"vllm:{name}_count"), num_choices, name)
        self.assertEqual(self.grown("vllm:request_params_n_count"), len(self.answers))
        self.assertEqual(self.grown("vllm:request_params_n_sum"), num_choices)
        self.assertEqual(self.grown("vllm:request_params_max_tokens_sum"),
                         sum(body["max_tokens"] * body["n"] for body in self.bodies))
        self.assertEqual(self.page.value("http_requests_total", handler="/v1/completions", status="2xx"),
                         len(self.answers))
        self.assertEqual(self.page.value("vllm:num_requests_running"), 0)
        self.assertEqual(self.page.value("vllm:kv_cache_usage_perc"), 0)

    def test_times_are_within_what_the_client_measured(self):
        # A choice's times are within its request's times, and the parts of a time add up to the whole.
        seen = sum(answer["all"] * len(answer["reasons"]) for answer in self.answers)
        e2e = self.grown("vllm:e2e_request_latency_seconds_sum")
        self.assertGreater(e2e, 0)
        self.assertLess(e2e, seen)
        parts = {part: self.grown(f"vllm:request_{part}_time_seconds_sum")
                 for part in ("queue", "prefill", "decode", "inference")}
        self.assertAlmostEqual(parts["inference"], parts["prefill"] + parts["decode"], delta=1e-6)
        self.assertLessEqual(parts["queue"] + parts["inference"], e2e + 1e-6)
        self.assertAlmostEqual(parts["decode"], self.grown("vllm:inter_token_latency_seconds_sum"), delta=1e-6)
        self.assertLess(self.grown("vllm:time_to_first_token_seconds_sum"),
                        sum(answer["first"] * len(answer["reasons"]) for answer in self.answers) + 1e-6)

    def test_histograms_are_cumulative_and_end_with_their_count(self):
        for family, kind in self.page.types.items():
            if kind != "histogram" or family == "http_request_duration_seconds":
                continue
            buckets = self.page.buckets(family)
            counts = [count for _, count in buckets]
            self.assertEqual(counts, sorted(counts), family)
            self.assertEqual(buckets[-1], ("+Inf", self.page.value(family + "_count")), family)

    def test_buckets_are_those_of_vllm(self):
        bounds = lambda name: [bound for bound, _ in self.page.buckets(name)]
        self.assertEqual(bounds("vllm:time_to_first_token_seconds"),
                         "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1.0 2.5 5.0 7.5 10.0 20.0 40.0 80.0 "
                         "160.0 640.0 2560.0 +Inf".split())
        self.assertEqual(bounds("vllm:inter_token_latency_seconds"),
                         "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1.0 2.5 5.0 7.5 10.0 20.0 40.0 80.0 "
                         "+Inf".split())
        self.assertEqual(bounds("vllm:e2e_request_latency_seconds"),
                         "0.3 0.5 0.8 1.0 1.5 2.0 2.5 5.0 10.0 15.0 20.0 30.0 40.0 50.0 60.0 120.0 240.0 480.0 960.0 "
                         "1920.0 7680.0 +Inf".split())
        self.assertEqual(bounds("vllm:request_prompt_tokens"), "1.0 2.0 5.0 10.0 20.0 50.0 100.0 200.0 +Inf".split())
        self.assertEqual(bounds("vllm:request_params_n"), "1.0 2.0 5.0 10.0 20.0 +Inf".split())

    def test_steps_are_counted_by_graph(self):
        steps = self.page.value("reprise:steps_total")
        self.assertGreater(steps, 0)
        self.assertEqual(self.page.value("reprise:cudagraph_dispatch_total"), steps)
        self.assertEqual(self.page.value("vllm:iteration_tokens_total_count"), steps)
        self.assertGreater(self.page.value("reprise:cudagraph_dispatch_total", runtime_mode="FULL"), 0)
        self.assertGreater(self.page.value("reprise:cudagraph_captured", mode="FULL"), 0)
        for phase in ("schedule", "prepare", "launch", "sample", "detokenise"):
            self.assertGreater(self.page.value("reprise:step_seconds_total", phase=phase), 0, phase)
        response, text = self.server.request("GET", "/live")
        live = json.loads(text)
        self.assertEqual(response.status, 200)
        self.assertEqual(live["steps"], steps)
        self.assertEqual(sum(live["steps_by_mode"].values()), steps)
        last = live["recent_steps"][-1]
        self.assertEqual(last["index"], steps)
        self.assertIn(last["mode"], ("FULL", "PIECEWISE", "NONE"))
        self.assertGreater(len(last["reason_text"]), 10)

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
    def test_promtool_finds_nothing_but_what_the_names_of_vllm_bring(self):
        run = subprocess.run(["promtool", "check", "metrics"], input=self.text, capture_output=True, text=True, check=False)
        findings = [line for line in (run.stdout + run.stderr).splitlines() if not KNOWN_FINDINGS.search(line)]
        self.assertEqual(findings, [])
        self.assertIn(run.returncode, (0, 3))

    def test_every_metric_and_label_is_in_the_reference(self):
        page = (SOURCE / "docs/reference/metrics.md").read_text(encoding="utf-8")
        rows = {name: (kind, set(re.findall(r"\w+", labels)))
                for name, kind, labels in re.findall(r"^\| `(\S+)` \| (\w+) \| (.*?) \|", page, re.M)}
        self.assertEqual({name: kind for name, (kind, _) in rows.items()}, self.page.types)
        for (sample, labels) in self.page.samples:
            family = self.page.family(sample)
            own = {label for label, _ in labels} - {"engine", "model_name", "le"}
            self.assertEqual(own, rows[family][1], sample)

    def test_every_expression_of_the_dashboard_finds_its_metric_and_labels(self):
        dashboard = json.loads((SOURCE / "deploy/grafana/reprise.json").read_text(encoding="utf-8"))
        panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
        self.assertGreater(len(panels), 12)
        self.assertEqual(len({panel["id"] for panel in dashboard["panels"]}), len(dashboard["panels"]))
        # The family of quarantined keys has no sample while no key is quarantined. All families of an engine have the
        # same labels.
        empty = {"reprise:cudagraph_quarantined"}
        self.assertLessEqual(empty, set(self.page.types))
        names = {sample for sample, _ in self.page.samples} | empty
        for panel in panels:
            for target in panel["targets"]:
                used = set(re.findall(r"(?:vllm:|reprise:|http_|process_)\w+", target["expr"]))
                self.assertTrue(used, panel["title"])
                self.assertLessEqual(used, names, panel["title"])
                labels = set.union(*({"engine", "model_name"} if name in empty else self.page.labels_of(name) for name in used))
                wanted = {label for group in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in group.split(", ")}
                wanted |= set(re.findall(r"[{,](\w+)=~?\"", target["expr"]))
                wanted |= set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                self.assertLessEqual(wanted, labels, panel["title"])

    def test_log_has_the_line_that_scripts_look_for(self):
        line = re.compile(r"^INFO \d\d-\d\d \d\d:\d\d:\d\d \[api_server.cpp:\d+\] Engine 000: Avg prompt throughput: \d+\.\d tokens/s, "
                          r"Avg generation throughput: \d+\.\d tokens/s, Running: \d+ reqs, Waiting: \d+ reqs, "
                          r"GPU KV cache usage: \d+\.\d%, Prefix cache hit rate: \d+\.\d%$", re.M)
        deadline = time.monotonic() + serve_test.TIMEOUT
        while not line.search(self.server.text()):
            self.assertLess(time.monotonic(), deadline, self.server.text())
            time.sleep(0.1)

    def test_log_has_the_level_and_the_prefix_that_were_asked_for(self):
        for environment, expected in (({"VLLM_LOGGING_PREFIX": "[a] "}, r"(?m)^\[a\] INFO .*Received request"),
                                      ({"VLLM_LOGGING_COLOR": "1"}, "(?m)^\033\\[32mINFO\033\\[0m .*Received request"),
                                      ({"VLLM_LOGGING_LEVEL": "WARNING"}, None)):
            server = serve_test.Server("--enable-log-requests", VLLM_LOG_STATS_INTERVAL="1", **environment)
            try:
                server.post("/v1/completions", {"prompt": "Once", "max_tokens": 2})
                log = server.log_so_far()
                if expected:
                    self.assertRegex(log, expected)
                else:
                    self.assertNotIn("Received request", log)
            finally:
                server.stop()

    def test_prompts_are_not_logged_unless_debugging(self):
        body = {"prompt": "my secret word", "max_tokens": 2}
        for options, environment, has_line, has_prompt in (
            ((), {}, False, False),
            (("--enable-log-requests",), {}, True, False),
            (("--enable-log-requests", "--max-log-len", "9"), {"VLLM_LOGGING_LEVEL": "DEBUG"}, True, True),
        ):
            server = serve_test.Server("--disable-log-stats", *options, **environment)
            try:
                server.post("/v1/completions", body)
                log = server.log_so_far()
                self.assertEqual("Received request cmpl-" in log, has_line)
                self.assertEqual('prompt: "my secret"' in log, has_prompt)
                self.assertNotIn("secret word", log)
            finally:
                server.stop()

    def test_answers_are_logged_when_asked_for(self):
        body = {"prompt": "Once", "max_tokens": 6, "n": 2, "seed": 1, "ignore_eos": True, "return_token_ids": True}
        for length in (None, 9):
            options = ("--max-log-len", str(length)) if length else ()
            server = serve_test.Server("--disable-log-stats", "--enable-log-requests", "--enable-log-outputs", *options)
            try:
                answer = server.post("/v1/completions", body)[1]
                log = server.log_so_far()
                for choice in answer["choices"]:
                    self.assertIn(f'Generated response {answer["id"]}: index: {choice["index"]}, output: '
                                  f'{json.dumps(choice["text"][:length], ensure_ascii=False)}, output_token_ids: '
                                  f'{choice["token_ids"][:length]}, finish_reason: length\n', log)
            finally:
                server.stop()

    def test_graphs_are_logged_as_a_table_when_asked_for(self):
        server = serve_test.Server("--cudagraph-metrics", VLLM_LOG_STATS_INTERVAL="1")
        try:
            server.post("/v1/completions", {"prompt": "Once", "max_tokens": 9, "ignore_eos": True})
            row = re.compile(r"^    \| 1 +\| 1 +\| 0 +\| FULL +\| 8 +\|$", re.M)
            deadline = time.monotonic() + serve_test.TIMEOUT
            while not row.search(server.text()):
                self.assertLess(time.monotonic(), deadline, server.text())
                time.sleep(0.1)
            self.assertIn("- Mode: FULL_AND_PIECEWISE\n    - Capture sizes: [1, 2, 4, 8, ", server.text())
        finally:
            server.stop()


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL, SOURCE = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    unittest.main(argv=sys.argv[:1], verbosity=2)
