#!/usr/bin/env python3
"""--max-num-queued-tokens, with vLLM's meaning: prompts count until their answers have a token.

    queued_tokens_test.py REPRISE_BINARY MODEL_FOLDER

An engine that sleeps lets prompts wait for as long as the test wants. Uses only Python's standard
library.
"""

import json
import subprocess
import sys
import unittest

import serve_test
from serve_test import TIMEOUT, stories

PROMPT = [5] * 10


class QueuedTokens(unittest.TestCase):
    def start(self, *options):
        server = serve_test.Server("--dev", *options)
        self.addCleanup(server.stop, 9)
        return server

    def wait_with(self, server, waiting, **fields):
        """Begins a request that waits in the sleeping engine; `waiting` answers wait with it."""
        connection = server.connect()
        self.addCleanup(connection.close)
        connection.request("POST", "/v1/completions", json.dumps(stories(prompt=PROMPT, **fields)),
                           {"Content-Type": "application/json"})
        server.wait_until(lambda: server.metric("vllm:num_requests_waiting") == waiting)
        return connection

    def assert_full(self, server, num_queued, most):
        response, text = server.request("POST", "/v1/completions", stories(prompt=PROMPT))
        self.assertEqual(response.status, 503, text)
        message = json.loads(text)["error"]["message"]
        self.assertIn(f"{num_queued} tokens of prompts", message)
        self.assertIn(f"--max-num-queued-tokens is {most}", message)

    def test_as_many_prompt_tokens_wait_as_the_option_allows(self):
        server = self.start("--max-num-queued-tokens", "25")
        self.assertEqual(server.request("POST", "/sleep?level=0")[0].status, 200)
        first = self.wait_with(server, 1)
        # 10 are fewer than 25, so all three answers are taken.
        third = self.wait_with(server, 4, n=3)
        self.assert_full(server, 40, 25)
        first.close()  # a client that leaves gives its tokens back
        server.wait_until(lambda: server.metric("vllm:num_requests_waiting") == 3)
        self.assert_full(server, 30, 25)
        server.request("POST", "/wake_up")
        self.assertEqual(third.getresponse().status, 200)
        self.assertEqual(server.post("/v1/completions", stories(prompt=PROMPT))[0], 200)

    def test_an_answer_that_is_written_has_no_waiting_prompt(self):
        server = self.start("--max-num-queued-tokens", "10")
        connection = server.connect()
        self.addCleanup(connection.close)
        body = stories(prompt=PROMPT, stream=True, max_tokens=900, ignore_eos=True)
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        stream = connection.getresponse()
        stream.readline()
        self.assertEqual(server.post("/v1/completions", stories(prompt=PROMPT, max_tokens=1))[0], 200)

    def test_one_prompt_may_be_longer_than_the_limit_but_0_takes_none(self):
        server = self.start("--max-num-queued-tokens", "1")
        self.assertEqual(server.post("/v1/completions", stories(prompt=PROMPT))[0], 200)
        self.assert_full(self.start("--max-num-queued-tokens", "0"), 0, 0)

    def test_negative_numbers_are_refused(self):
        done = subprocess.run([serve_test.BINARY, "serve", serve_test.MODEL, "--max-num-queued-tokens=-1"],
                              capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--max-num-queued-tokens: must be 0 or more", done.stderr)


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
