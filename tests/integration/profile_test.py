#!/usr/bin/env python3
"""/start_profile and /stop_profile: what the trace says, against /metrics and against itself.

    profile_test.py REPRISE_BINARY MODEL_FOLDER

Uses only Python's standard library.
"""

import collections
import json
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import metrics_test
import serve_test

# The error of times in the text of a trace and of /metrics.
ROUNDING_SECONDS = 1e-5


def read_trace(path):
    """Steps of a trace file, each with its phases; fails unless its slices nest and follow each other."""
    trace = json.loads(path.read_text())
    events = [event for event in trace["traceEvents"] if event["ph"] != "M"]
    assert {event["ph"] for event in events} <= {"X"}, events
    assert len({event["pid"] for event in events}) <= 1
    steps, last = [], {}  # for each track: steps that are scheduled ahead have a track of their own
    for event in events:
        step, end = last.get(event["tid"]), event["ts"] + event["dur"]
        if event["cat"] == "step":
            assert step is None or event["ts"] >= step["ts"] + step["dur"], (event, step)
            steps.append({**event, "phases": []})
            last[event["tid"]] = steps[-1]
        else:
            phases = step["phases"]
            begin = phases[-1]["ts"] + phases[-1]["dur"] if phases else step["ts"]
            # The text of a trace ends at nanoseconds.
            assert event["ts"] >= begin - 0.002 and end <= step["ts"] + step["dur"] + 0.002, (event, step)
            phases.append(event)
    assert trace["otherData"]["num_steps"] == len(steps)
    return trace, steps


def count_decisions(page):
    return collections.Counter({
        tuple(dict(labels)[label] for label in ("runtime_mode", "descriptor", "reason")): value
        for (name, labels), value in page.samples.items() if name == "reprise:cudagraph_dispatch_total"})


class Profile(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.server = None

    def tearDown(self):
        if self.server:
            self.server.stop()
        self.folder.cleanup()

    def start(self, *options, **environment):
        self.server = serve_test.Server("--max-model-len", "256", *options, **environment)
        return self.server

    def call(self, path):
        response, text = self.server.request("POST", path)
        return response.status, text

    def generate(self, *lengths):
        """Requests side by side; some share steps, some wait."""
        bodies = [serve_test.stories(prompt="word " * (1 + 9 * i), max_tokens=length, ignore_eos=True, temperature=1,
                                     seed=i) for i, length in enumerate(lengths)]
        threads = [threading.Thread(target=self.server.post, args=("/v1/completions", body)) for body in bodies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def traces(self):
        return sorted(Path(self.folder.name).iterdir())

    def profile(self, *lengths):
        self.assertEqual(self.call("/start_profile"), (200, b""))
        self.generate(*lengths)
        self.assertEqual(self.call("/stop_profile"), (200, b""))
        return read_trace(self.traces()[-1])

    def test_a_trace_agrees_with_the_metrics(self):
        self.start("--profiler-config.torch_profiler_dir", self.folder.name)
        self.generate(5)  # not in the profile
        before = metrics_test.scrape(self.server)[1]
        trace, steps = self.profile(*range(1, 21))
        after = metrics_test.scrape(self.server)[1]

        def grown(name, **labels):
            return after.value(name, **labels) - before.value(name, **labels)

        self.assertEqual(trace["otherData"]["num_overwritten_steps"], 0)
        self.assertEqual(len(steps), grown("reprise:steps_total"))
        arguments = [step["args"] for step in steps]
        first = before.value("reprise:steps_total") + 1
        self.assertEqual([each["step"] for each in arguments], [first + i for i in range(len(steps))])
        self.assertEqual(
            collections.Counter((each["runtime_mode"], each["descriptor"], each["reason"]) for each in arguments),
            +(count_decisions(after) - count_decisions(before)))
        self.assertEqual(sum(each["padding_tokens"] for each in arguments),
                         grown("reprise:cudagraph_padding_tokens_total"))
        # The last token of an answer is sampled and never computed.
        self.assertEqual(sum(each["tokens"] for each in arguments),
                         grown("vllm:prompt_tokens_total") - grown("vllm:prompt_tokens_cached_total")
                         + sum(length - 1 for length in range(1, 21)))
        self.assertFalse(any(each["failed"] for each in arguments))
        self.assertLessEqual(max(each["requests"] for each in arguments), 20)

    def test_phases_make_up_the_time_of_steps(self):
        self.start("--profiler-config", json.dumps({"profiler": "torch", "torch_profiler_dir": self.folder.name}))
        before = metrics_test.scrape(self.server)[1]
        _, steps = self.profile(*[30] * 8)
        after = metrics_test.scrape(self.server)[1]
        phases = collections.Counter()
        for step in steps:
            names = [phase["name"] for phase in step["phases"]]
            # Some phases have several spans: the engine prepares a step, then the runner stages it.
            self.assertEqual(set(names), {"schedule", "prepare", "launch", "wait", "sample", "detokenise"})
            self.assertEqual((names[0], names[-1]), ("schedule", "detokenise"))
            self.assertLessEqual(sum(phase["dur"] for phase in step["phases"]), step["dur"] + 0.01)
            for phase in step["phases"]:
                phases[phase["name"]] += phase["dur"] / 1e6
        for phase, seconds in phases.items():
            counted = after.value("reprise:step_seconds_total", phase=phase) - before.value(
                "reprise:step_seconds_total", phase=phase)
            self.assertAlmostEqual(seconds, counted, delta=ROUNDING_SECONDS, msg=phase)

    def test_profiles_follow_each_other_each_in_a_file(self):
        self.start(VLLM_TORCH_PROFILER_DIR=str(Path(self.folder.name)))
        self.profile(3)
        self.profile(4)
        self.assertEqual(self.call("/start_profile")[0], 200)
        self.assertEqual(self.call("/stop_profile")[0], 200)
        self.assertEqual([len(read_trace(path)[1]) for path in self.traces()], [3, 4, 0])
        self.assertTrue(all(path.name.endswith(".pt.trace.json") for path in self.traces()))

    def test_clients_cannot_fill_the_disk(self):
        self.start("--profiler-config.torch_profiler_dir", self.folder.name)
        for _ in range(100):
            self.assertEqual((self.call("/start_profile")[0], self.call("/stop_profile")[0]), (200, 200))
        status, text = self.call("/start_profile")
        self.assertEqual(status, 409)
        self.assertIn("100 profiles", json.loads(text)["error"]["message"])

    def test_steps_can_be_chosen(self):
        config = {"torch_profiler_dir": self.folder.name, "delay_iterations": 2, "max_iterations": 5}
        self.start("--profiler-config", json.dumps(config))
        _, steps = self.profile(20)
        self.assertEqual([step["args"]["step"] for step in steps], [3, 4, 5, 6, 7])

    def test_a_profile_of_requests_that_go_on(self):
        """Starting and stopping wait for no request."""
        self.start("--profiler-config.torch_profiler_dir", self.folder.name)
        running = threading.Thread(target=self.generate, args=(200, 200, 200))
        running.start()
        self.server.wait_until(lambda: self.server.metric("vllm:num_requests_running") > 0)
        for _ in range(3):
            self.assertEqual(self.call("/start_profile")[0], 200)
            self.assertEqual(self.call("/stop_profile")[0], 200)
        running.join()
        for path in self.traces():
            read_trace(path)

    def test_what_cannot_be_is_said(self):
        self.start("--profiler-config.torch_profiler_dir", self.folder.name)
        self.assertIn("/stop_profile", json.loads(self.server.request("GET", "/openapi.json")[1])["paths"])
        status, text = self.call("/stop_profile")
        self.assertEqual((status, json.loads(text)["error"]["type"]), (409, "ConflictError"))
        self.assertEqual(self.call("/start_profile")[0], 200)
        self.assertEqual(self.call("/start_profile")[0], 409)
        self.assertEqual(self.call("/stop_profile")[0], 200)

    def test_a_folder_that_cannot_be_written(self):
        file = Path(self.folder.name) / "file"
        file.touch()
        self.start("--profiler-config.torch_profiler_dir", str(file))
        self.assertEqual(self.call("/start_profile")[0], 200)
        status, text = self.call("/stop_profile")
        self.assertEqual(status, 500)
        self.assertNotIn(self.folder.name.encode(), text)
        self.server.wait_until(lambda: f"cannot be written to {file}" in self.server.text())
        self.assertEqual(self.server.request("GET", "/health")[0].status, 200)

    def test_without_a_folder_it_is_not_there(self):
        self.start()
        for path in ("/start_profile", "/stop_profile"):
            status, text = self.call(path)
            self.assertEqual(status, 404)
            self.assertIn("VLLM_TORCH_PROFILER_DIR", json.loads(text)["error"]["message"])
            self.assertNotIn(path, json.loads(self.server.request("GET", "/openapi.json")[1])["paths"])


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
