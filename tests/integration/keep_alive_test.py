#!/usr/bin/env python3
"""--sse-keep-alive-interval: comments on streams that are silent, and on nothing else.

    keep_alive_test.py REPRISE_BINARY MODEL_FOLDER

An engine that sleeps makes every request silent for as long as the test wants. Uses only Python's
standard library.
"""

import json
import subprocess
import sys
import threading
import time
import unittest

import serve_test
from serve_test import NAME, TIMEOUT, chats, events, stories

COMMENT = b": keep-alive\n\n"
QUESTION = chats()["messages"]
STREAMS = {
    "/v1/chat/completions": chats(stream=True),
    "/v1/completions": stories(stream=True),
    "/v1/messages": {"model": NAME, "messages": QUESTION, "temperature": 0, "max_tokens": 20, "stream": True},
    "/v1/responses": {"model": NAME, "input": QUESTION, "temperature": 0, "max_output_tokens": 20, "stream": True},
}


def said(text):
    """The text that the events of a stream spell; fails where a line belongs to no event."""
    words = ""
    for block in text.decode().split("\n\n"):
        for line in block.splitlines():
            name, _, data = line.partition(": ")
            assert name in ("event", "data"), line
            if name == "event" or data == "[DONE]":
                continue
            event = json.loads(data)
            choice = (event.get("choices") or [{}])[0]
            delta = event.get("delta", choice.get("delta", choice.get("text", "")))
            words += delta if isinstance(delta, str) else delta.get("content") or delta.get("text") or ""
    return words


class KeepAlive(unittest.TestCase):
    def start(self, *options):
        server = serve_test.Server("--dev", *options)
        self.addCleanup(server.stop, 9)
        return server

    def call(self, server, path):
        response, text = server.request("POST", path)
        self.assertEqual(response.status, 200, text)

    def begin(self, server, path, body):
        connection = server.connect()
        self.addCleanup(connection.close)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return connection

    def test_silent_streams_get_comments_between_their_events(self):
        server = self.start("--sse-keep-alive-interval", "1")
        expected = {path: said(server.request("POST", path, body)[1]) for path, body in STREAMS.items()}
        self.call(server, "/sleep?level=0")
        streams = {path: self.begin(server, path, body).getresponse() for path, body in STREAMS.items()}
        received = {path: b"" for path in streams}
        for path, response in streams.items():
            self.assertEqual(response.status, 200)
            self.assertEqual(response.headers.get_content_type(), "text/event-stream")
            while received[path].count(COMMENT) < 2:
                received[path] += response.readline()
        self.call(server, "/wake_up")
        for path, response in streams.items():
            text = received[path] + response.read()
            self.assertEqual(said(text.replace(COMMENT, b"")), expected[path], path)
            self.assertNotEqual(expected[path], "")
        self.assertEqual(len({expected[path] for path in STREAMS if "chat" in path or "messages" in path}), 1)

    def test_other_answers_get_none(self):
        server = self.start("--sse-keep-alive-interval", "1")
        self.call(server, "/sleep?level=0")
        bodies = {}

        def ask(path, body):
            bodies[path] = server.request("POST", path, body)[1]

        lines = {"model": NAME, "messages": QUESTION, "stream": True, "options": {"num_predict": 8}}
        asked = [threading.Thread(target=ask, args=each)
                 for each in (("/v1/completions", stories()), ("/api/chat", lines))]
        for thread in asked:
            thread.start()
        # When this stream has comments, those of the others were due too.
        stream = self.begin(server, "/v1/completions", stories(stream=True)).getresponse()
        server.wait_until(lambda: server.metric("vllm:num_requests_waiting") == 3)
        received = b""
        while received.count(COMMENT) < 3:
            received += stream.readline()
        self.call(server, "/wake_up")
        for thread in asked:
            thread.join()
        self.assertIn("text", json.loads(bodies["/v1/completions"])["choices"][0])
        self.assertTrue(all(json.loads(line) for line in bodies["/api/chat"].splitlines()))

    def test_a_client_that_goes_is_noticed(self):
        server = self.start("--sse-keep-alive-interval", "1")
        self.call(server, "/sleep?level=0")
        connection = self.begin(server, "/v1/completions", stories(stream=True))
        response = connection.getresponse()
        self.assertEqual(response.readline(), b": keep-alive\n")
        response.close()
        connection.close()
        server.wait_until(lambda: server.metric("vllm:num_requests_waiting") == 0)
        self.assertEqual(server.metric("vllm:request_success_total", 'finished_reason="abort"'), 1)

    def test_off_without_the_option(self):
        server = self.start()
        self.call(server, "/sleep?level=0")
        connection = self.begin(server, "/v1/completions", stories(stream=True))
        server.wait_until(lambda: server.metric("vllm:num_requests_waiting") == 1)
        time.sleep(2.5)  # two comments, if 0 meant each second
        self.call(server, "/wake_up")
        events(connection.getresponse().read())

    def test_other_numbers_are_refused(self):
        for value in ("-1", "1.5", "100000"):
            done = subprocess.run([serve_test.BINARY, "serve", serve_test.MODEL, f"--sse-keep-alive-interval={value}"],
                                  capture_output=True, text=True, timeout=TIMEOUT)
            self.assertEqual(done.returncode, 2)
            self.assertIn("--sse-keep-alive-interval", done.stderr)


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
