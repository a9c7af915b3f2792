#!/usr/bin/env python3
"""/sleep, /wake_up and /is_sleeping: memory, answers, and what becomes of requests.

    sleep_test.py REPRISE_BINARY MODEL_FOLDER

Uses only Python's standard library.
"""

import json
import shutil
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import serve_test
from serve_test import stories

LONG = "All the animals of the forest came to the river. " * 4


class Request(threading.Thread):
    """A request that may take as long as the server sleeps."""

    def __init__(self, server, **fields):
        super().__init__()
        self.server, self.body = server, stories(**fields)
        self.start()

    def run(self):
        self.status, self.answer = self.server.post("/v1/completions", self.body)


class Sleep(unittest.TestCase):
    def start(self, *options, **environment):
        server = serve_test.Server("--dev", *options, **environment)
        self.addCleanup(server.stop, 9)
        return server

    def call(self, server, path, expected=200):
        response, text = server.request("POST", path)
        self.assertEqual(response.status, expected, text)
        return json.loads(text)["error"] if text else None

    def is_sleeping(self, server):
        return json.loads(server.request("GET", "/is_sleeping")[1])["is_sleeping"]

    def text(self, server, **fields):
        status, answer = server.post("/v1/completions", stories(prompt=LONG, **fields))
        self.assertEqual(status, 200, answer)
        return answer["choices"][0]["text"]

    def resident(self, server):
        response, text = server.request("GET", "/metrics")
        line = next(line for line in text.decode().splitlines() if line.startswith("process_resident_memory_bytes"))
        return float(line.split()[-1])

    def fill_cache(self, server):
        """Touches as much of the cache as one request for many answers can."""
        body = stories(n=32, temperature=1, max_tokens=400, ignore_eos=True)
        status, answer = server.post("/v1/completions", body)
        self.assertEqual(status, 200, answer)

    def test_memory_goes_and_returns_and_answers_stay(self):
        server = self.start()
        expected = self.text(server)
        before = self.resident(server)
        self.fill_cache(server)
        filled = self.resident(server)
        self.assertGreater(filled, before)
        weights = sum(path.stat().st_size for path in Path(serve_test.MODEL).glob("*.safetensors"))
        self.call(server, "/sleep?level=1")
        without_cache = self.resident(server)
        self.assertLess(without_cache, filled - (filled - before) / 2)
        self.call(server, "/sleep?level=2")
        self.assertLess(self.resident(server), without_cache - weights / 2)
        self.call(server, "/wake_up")
        self.assertEqual(self.text(server), expected)
        self.fill_cache(server)
        self.assertGreater(self.resident(server), filled - (filled - before) / 4)

    def test_graphs_are_replayed_afterwards(self):
        server = self.start()
        for level in (1, 2):
            self.call(server, f"/sleep?level={level}")
            self.call(server, "/wake_up")
            before = server.metric("reprise:cudagraph_dispatch_total", 'reason="full_uniform"') if level > 1 else 0
            self.text(server)
            self.assertGreater(server.metric("reprise:cudagraph_dispatch_total", 'reason="full_uniform"'), before)
        self.assertEqual(server.metric("reprise:cudagraph_retired"), 0)
        self.assertEqual(server.metric("reprise:failed_steps_total"), 0)

    def test_prefixes_are_forgotten(self):
        server = self.start("--enable-prompt-tokens-details")

        def cached_tokens():
            _, answer = server.post("/v1/completions", stories(prompt=LONG))
            return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

        cached_tokens()
        self.assertGreater(cached_tokens(), 0)
        self.call(server, "/sleep")
        self.call(server, "/wake_up")
        self.assertEqual(cached_tokens(), 0)
        self.assertGreater(cached_tokens(), 0)

    def test_requests_wait_until_the_engine_wakes(self):
        server = self.start()
        expected = self.text(server)
        self.call(server, "/sleep")
        requests = [Request(server, prompt=LONG) for _ in range(3)]
        server.wait_until(lambda: server.metric("vllm:num_requests_waiting") == 3)
        self.assertEqual(server.metric("vllm:num_requests_running"), 0)
        self.assertEqual(server.request("GET", "/health")[0].status, 200)
        self.assertTrue(all(request.is_alive() for request in requests))
        self.call(server, "/wake_up")
        for request in requests:
            request.join()
            self.assertEqual(request.answer["choices"][0]["text"], expected)

    def test_a_client_that_goes_waits_no_more(self):
        server = self.start()
        self.call(server, "/sleep")
        connection = server.connect()
        connection.request("POST", "/v1/completions", json.dumps(stories()), {"Content-Type": "application/json"})
        server.wait_until(lambda: server.metric("vllm:num_requests_waiting") == 1)
        connection.close()
        server.wait_until(lambda: server.metric("vllm:num_requests_waiting") == 0)
        self.assertEqual(server.metric("vllm:request_success_total", 'finished_reason="abort"'), 1)
        self.call(server, "/wake_up")
        self.text(server)

    def test_running_requests_are_aborted(self):
        server = self.start()
        request = Request(server, max_tokens=1000, ignore_eos=True, n=4, temperature=1)
        server.wait_until(lambda: server.metric("vllm:num_requests_running") > 0)
        self.call(server, "/sleep")
        request.join()
        self.assertEqual(request.status, 503)
        self.assertEqual(server.metric("vllm:num_requests_running"), 0)
        self.assertEqual(server.metric("vllm:kv_cache_usage_perc"), 0)
        self.call(server, "/wake_up")
        self.text(server)

    def test_running_requests_may_finish_first(self):
        server = self.start()
        running = Request(server, max_tokens=600, ignore_eos=True, n=4, temperature=1)
        server.wait_until(lambda: server.metric("vllm:num_requests_running") > 0)
        sleep = threading.Thread(target=self.call, args=(server, "/sleep?mode=wait"))
        sleep.start()
        sleep.join()
        running.join()
        self.assertEqual(running.answer["usage"]["completion_tokens"], 2400)
        self.assertTrue(self.is_sleeping(server))
        self.call(server, "/wake_up")
        self.text(server)

    def test_parts_wake_one_by_one(self):
        server = self.start()
        expected = self.text(server)
        self.call(server, "/sleep?level=2")
        self.call(server, "/wake_up?tags=weights")
        self.assertTrue(self.is_sleeping(server))
        request = Request(server, prompt=LONG)
        server.wait_until(lambda: server.metric("vllm:num_requests_waiting") == 1)
        self.call(server, "/wake_up?tags=kv_cache")
        self.assertFalse(self.is_sleeping(server))
        request.join()
        self.assertEqual(request.answer["choices"][0]["text"], expected)
        self.call(server, "/sleep")
        self.call(server, "/wake_up?tags=kv_cache&tags=weights")
        self.assertFalse(self.is_sleeping(server))

    def test_sleep_gets_deeper_and_a_pause_gives_nothing_back(self):
        server = self.start()
        expected = self.text(server)

        def states():
            return [server.metric("vllm:engine_sleep_state", f'sleep_state="{state}"')
                    for state in ("awake", "weights_offloaded", "discard_all")]

        self.call(server, "/wake_up")  # of what is awake: nothing
        self.assertEqual(states(), [1, 0, 0])
        self.call(server, "/sleep?level=0")
        self.assertTrue(self.is_sleeping(server))
        self.assertEqual(states(), [0, 0, 0])
        self.call(server, "/sleep?level=1")
        self.assertEqual(states(), [0, 1, 0])
        self.call(server, "/sleep?level=2")
        self.assertEqual(states(), [0, 0, 1])
        self.call(server, "/sleep?level=1")
        self.assertEqual(states(), [0, 0, 1])
        self.call(server, "/wake_up")
        self.assertEqual(states(), [1, 0, 0])
        self.assertEqual(self.text(server), expected)
        self.call(server, "/sleep?level=0")
        self.call(server, "/wake_up?tags=scheduling")
        self.assertEqual(self.text(server), expected)

    def test_weights_that_cannot_be_read_keep_it_asleep(self):
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "model"
            shutil.copytree(serve_test.MODEL, model)
            bundled, serve_test.MODEL = serve_test.MODEL, str(model)
            try:
                server = self.start()
            finally:
                serve_test.MODEL = bundled
            expected = self.text(server)
            self.call(server, "/sleep?level=2")
            weights = next(model.glob("*.safetensors"))
            whole = weights.read_bytes()
            for bad in (b"", whole[: len(whole) // 2]):
                weights.write_bytes(bad)
                error = self.call(server, "/wake_up", 500)
                self.assertNotIn(folder, error["message"])
                self.assertTrue(self.is_sleeping(server))
            weights.write_bytes(whole)
            self.call(server, "/wake_up")
            self.assertEqual(self.text(server), expected)

    def test_what_cannot_be_is_said(self):
        server = self.start()
        for path, parameter in (("/sleep?level=3", "level"), ("/sleep?level=x", "level"), ("/sleep?mode=keep", "mode"),
                                ("/sleep?mode=", "mode"), ("/sleep?level=1&level=2", "level")):
            self.assertEqual(self.call(server, path, 400)["param"], parameter)
        self.assertIn("gpu", self.call(server, "/wake_up?tags=gpu", 400)["message"])
        self.assertFalse(self.is_sleeping(server))

    def test_it_ends_while_it_sleeps(self):
        server = self.start("--shutdown-timeout", "1")
        self.call(server, "/sleep?level=2")
        request = Request(server)
        server.wait_until(lambda: server.metric("vllm:num_requests_waiting") == 1)
        self.assertEqual(server.stop(), 0)
        request.join()
        self.assertEqual(request.status, 503)


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
