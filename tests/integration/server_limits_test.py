#!/usr/bin/env python3
"""Requests that look valid and cost much: each is refused or bounded, and other clients are served meanwhile.

    server_limits_test.py REPRISE_BINARY MODEL_FOLDER

docs/reference/server-limits.md names the test of each limit. Only Python's standard library.
"""

import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "load"))
import attacks
from in_turn import load_tests  # noqa: F401
import serve_test
from serve_test import TIMEOUT, Server, chats, stories

MIB = 1 << 20


def head(method, path, *lines, host="localhost"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *lines, "", ""]).encode("latin-1")


def json_head(path, length):
    return head("POST", path, "Content-Type: application/json", f"Content-Length: {length}")


class Case(unittest.TestCase):
    def start(self, *options, **environment):
        server = Server(*options, **environment)
        self.addCleanup(server.stop)
        return server

    def open(self, server, data=b""):
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT)
        self.addCleanup(connection.close)
        connection.sendall(data)
        return connection

    def read(self, connection):
        """What the server sends until it closes."""
        received = b""
        try:
            while piece := connection.recv(65536):
                received += piece
        except ConnectionResetError:
            pass
        return received

    def assert_error(self, answer, status):
        """`answer` is one whole error in the form that every route uses."""
        first, _, body = answer.partition(b"\r\n\r\n")
        self.assertEqual(first[:12], b"HTTP/1.1 %d" % status, answer[:300])
        self.assertIn(b"Content-Type: application/json", first)
        error = json.loads(body)["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assertEqual(error["code"], status)
        return error


class Bodies(Case):
    def test_a_claimed_length_takes_no_memory(self):
        server = self.start()
        # Together these requests announce more bytes than all bodies may have.
        for _ in range(40):
            self.open(server, json_head("/v1/completions", 16 * MIB))
        status, answer = server.post("/v1/completions", stories(max_tokens=1))
        self.assertEqual(status, 200, answer)
        large = stories(prompt="a" * MIB)
        status, answer = server.post("/v1/completions", large)
        self.assertEqual((status, answer["error"]["param"]), (400, "input_tokens"))

    def fill_the_memory_of_bodies(self, server):
        """Whether a body of 4 MiB is refused before the first of these bodies has been silent for too long."""
        end = time.monotonic() + 20
        for _ in range(20):  # 16 of these take all the memory
            connection = self.open(server, json_head("/v1/completions", 16 * MIB))
            try:
                connection.sendall(b" " * (16 * MIB - 1))
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused with 503
        # Some bytes may still be on their way.
        while (status := server.post("/v1/completions", stories(prompt="a" * 4 * MIB))[0]) == 400:
            if time.monotonic() > end:
                return False
        self.assertEqual(status, 503)
        return True

    def test_bodies_that_have_arrived_in_part_do_not_lock_small_ones_out(self):
        server = self.start()
        self.assertTrue(any(self.fill_the_memory_of_bodies(server) for _ in range(5)))
        self.assertEqual(server.post("/v1/completions", stories(max_tokens=1))[0], 200)

    def test_a_route_without_a_body_waits_for_none(self):
        server = self.start()
        for method, path in (("GET", "/health"), ("POST", "/ping")):
            answer = self.read(self.open(server, head(method, path, f"Content-Length: {16 * MIB}")))
            self.assert_error(answer, 413)
            small = head(method, path, "Content-Length: 65536", "Connection: close") + b"x" * 65536
            self.assertTrue(self.read(self.open(server, small)).startswith(b"HTTP/1.1 200"))
            answer = self.read(self.open(server, head(method, path, "Content-Length: 65537")))
            self.assert_error(answer, 413)
            chunked = head(method, path, "Transfer-Encoding: chunked") + b"10001\r\n" + b"x" * 65537 + b"\r\n0\r\n\r\n"
            self.assert_error(self.read(self.open(server, chunked)), 413)

    def test_a_body_that_stops_is_answered_408(self):
        server = self.start("--body-timeout", "1")
        for data in (b"", b'{"prompt": '):
            connection = self.open(server, json_head("/v1/completions", 100) + data)
            self.assertEqual(self.assert_error(self.read(connection), 408)["type"], "RequestTimeoutError")


class Headers(Case):
    def test_a_header_that_stops_is_answered_408(self):
        server = self.start("--header-timeout", "1")
        for data in (b"G", b"GET /health HTTP/1.1\r\nHost: loc"):
            self.assert_error(self.read(self.open(server, data)), 408)
        # An idle connection is closed without an answer, before and after a request.
        self.assertEqual(self.read(self.open(server)), b"")
        answer = self.read(self.open(server, head("GET", "/health")))
        self.assertTrue(answer.startswith(b"HTTP/1.1 200"))
        self.assertEqual(answer.count(b"HTTP/1.1"), 1)

    def test_made_up_methods_do_not_make_metrics_grow(self):
        server = self.start("--disable-uvicorn-access-log")
        server.request("GET", "/nothing")
        _, before = server.request("GET", "/metrics")
        for number in range(200):
            answer = self.read(self.open(server, head(f"M{number}" + "A" * 20000, "/nothing", "Connection: close")))
            self.assert_error(answer, 501)
        server.request("PROPFIND", "/nothing")
        _, after = server.request("GET", "/metrics")
        self.assertLess(len(after), len(before) + 2000)
        self.assertNotIn(b"AAAA", after)
        self.assertIn(b'http_requests_total{handler="none",method="other",status="4xx"} 1', after)


class Answers(Case):
    def test_an_answer_of_very_many_log_probabilities_is_refused(self):
        server = self.start()
        bomb = {"prompt": [[5] * 100] * 256, "prompt_logprobs": 20, "max_tokens": 1}
        status, answer = server.post("/v1/completions", bomb)
        self.assertEqual(status, 400, str(answer)[:300])
        self.assertEqual(answer["error"]["param"], "prompt_logprobs")
        self.assertIn("--max-answer-bytes", answer["error"]["message"])
        self.assertEqual(server.post("/v1/completions", {**bomb, "prompt_logprobs": 0, "max_tokens": 1,
                                                         "prompt": [[5] * 1000] * 8})[0], 200)

    def test_a_large_answer_is_the_same_as_its_parts(self):
        """Large answers are written by another thread than small ones."""
        server = self.start("--max-answer-bytes", "64M")
        prompts = [[5 + number] * 200 for number in range(32)]
        fields = {"prompt_logprobs": 5, "max_tokens": 2, "temperature": 0}
        _, large = server.post("/v1/completions", {"prompt": prompts, **fields})
        self.assertEqual(len(large["choices"]), 32)
        for number in (0, 31):
            _, small = server.post("/v1/completions", {"prompt": prompts[number][:20], **fields})
            whole, part = large["choices"][number], small["choices"][0]
            self.assertEqual(len(whole["prompt_logprobs"]), 200)
            for ours, theirs in zip(whole["prompt_logprobs"][1:20], part["prompt_logprobs"][1:]):
                self.assertEqual(list(ours), list(theirs))
        self.assertEqual(large["usage"]["prompt_tokens"], 32 * 200)

    def test_clients_that_leave_while_a_large_answer_is_written(self):
        server = self.start()
        body = json.dumps({"prompt": [[5] * 500] * 16, "prompt_logprobs": 20, "max_tokens": 1}).encode()
        for _ in range(5):
            self.open(server, json_head("/v1/completions", len(body)) + body).close()
        self.assertEqual(server.post("/v1/completions", stories(max_tokens=1))[0], 200)
        server.wait_until(lambda: server.metric("vllm:num_requests_running") == 0)


class Connections(Case):
    def probe(self, connection):
        connection.sendall(head("GET", "/health"))
        return connection.recv(65536)

    def test_one_address_does_not_get_all_connections(self):
        server = self.start("--max-connections", "8", "--max-connections-per-peer", "3")
        held = [self.open(server) for _ in range(3)]
        for connection in held:
            self.assertTrue(self.probe(connection).startswith(b"HTTP/1.1 200"))
        error = self.assert_error(self.read(self.open(server)), 503)
        self.assertIn("this address", error["message"])
        held.pop().close()

        def is_let_in():
            with socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT) as connection:
                try:
                    return self.probe(connection).startswith(b"HTTP/1.1 200")
                except ConnectionResetError:  # refused while we were sending
                    return False

        server.wait_until(is_let_in)
        # 127.0.0.2 is another address of this machine.
        other = socket.create_connection(("127.0.0.1", server.port), TIMEOUT, source_address=("127.0.0.2", 0))
        self.addCleanup(other.close)
        self.assertTrue(self.probe(other).startswith(b"HTTP/1.1 200"))

    def test_all_connections_together(self):
        server = self.start("--max-connections", "4", "--max-connections-per-peer", "100")
        held = [self.open(server) for _ in range(4)]
        for connection in held:
            self.assertTrue(self.probe(connection).startswith(b"HTTP/1.1 200"))
        self.assert_error(self.read(self.open(server)), 503)

    def test_a_quarter_of_the_connections_is_for_other_addresses(self):
        server = self.start("--max-connections", "8")
        held = [self.open(server) for _ in range(6)]
        for connection in held:
            self.assertTrue(self.probe(connection).startswith(b"HTTP/1.1 200"))
        self.assert_error(self.read(self.open(server)), 503)


class Ends(Case):
    def test_a_terminal_that_goes_lets_running_requests_finish(self):
        server = self.start("--shutdown-timeout", str(TIMEOUT))
        connection = server.connect()
        self.addCleanup(connection.close)
        body = json.dumps(stories(max_tokens=900, ignore_eos=True, temperature=1, n=8))
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        server.wait_until(lambda: server.metric("vllm:num_requests_running") > 0)
        server.process.send_signal(signal.SIGHUP)
        response = connection.getresponse()
        self.assertEqual(response.status, 200)
        self.assertEqual(len(json.loads(response.read())["choices"]), 8)
        self.assertEqual(server.process.wait(TIMEOUT), 0)
        self.assertIn("Application shutdown complete.", server.text())

    def test_a_server_under_nohup_stays(self):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # children inherit it
        try:
            server = self.start()
        finally:
            signal.signal(signal.SIGHUP, before)
        server.process.send_signal(signal.SIGHUP)
        self.assertEqual(server.post("/v1/completions", stories(max_tokens=1))[0], 200)
        self.assertIsNone(server.process.poll())
        self.assertNotIn("Shutting down", server.log_so_far())


class Messages(Case):
    def test_an_error_does_not_send_the_input_back(self):
        server = self.start()
        for body in (b'{"prompt": "' + b"a" * MIB, b'{"prompt": "' + b"a" * MIB + b"\n\"}",
                     b'{"' + b"a" * MIB + b'": 1, "' + b"a" * MIB + b'": 2}', b'{"prompt": ' + b"1" * MIB + b"x}",
                     b'{"prompt": "a", "model": "' + b"m" * MIB + b'"}',
                     b'{"prompt": "a", "structured_outputs": {"regex": "(' + b"r" * 60000 + b'"}}'):
            response, text = server.request("POST", "/v1/completions", body)
            self.assertIn(response.status, (400, 404), body[:40])
            message = json.loads(text)["error"]["message"]
            self.assertLess(len(message), 2100, body[:40])
            self.assertLess(max(len(run) for run in re.findall(r"a+|1+|m+", message)), 257, message[:300])

    def test_versions_that_are_not_spoken(self):
        server = self.start()
        answer = self.read(self.open(server, b"GET /health HTTP/3.0\r\nHost: localhost\r\n\r\n"))
        self.assertEqual(self.assert_error(answer, 505)["type"], "HTTPVersionNotSupportedError")


class Tokens(Case):
    def test_answers_about_tokens_are_bounded(self):
        server = self.start("--max-answer-bytes", "100k")
        words = "It was a dark night. "
        status, answer = server.post("/tokenize", {"prompt": words * 100, "return_token_strs": True})
        self.assertEqual(status, 200)
        self.assertEqual(len(answer["tokens"]), answer["count"])
        self.assertEqual(len(answer["token_strs"]), answer["count"])
        for path, body, param in (("/tokenize", {"prompt": words * 10000}, "prompt"),
                                  ("/tokenize", {"prompt": words * 1500, "return_token_strs": True}, "prompt"),
                                  ("/detokenize", {"tokens": answer["tokens"] * 100}, "tokens")):
            status, refusal = server.post(path, body)
            self.assertEqual((status, refusal["error"]["param"]), (400, param), str(refusal)[:200])
            self.assertIn("--max-answer-bytes", refusal["error"]["message"])
        status, text = server.post("/detokenize", {"tokens": answer["tokens"]})
        self.assertEqual((status, text["prompt"]), (200, words * 100))


class Pages(Case):
    def test_a_name_that_a_page_chose_is_not_answered(self):
        server = self.start("--dev")
        for path in ("/health", "/v1/models", "/metrics", "/"):
            for host, status in (("localhost", 200), ("127.0.0.1:8000", 200), ("[::1]", 200), ("evil.example", 403),
                                 ("localhost.evil.example:80", 403)):
                answer = self.read(self.open(server, head("GET", path, "Connection: close", host=host)))
                self.assertEqual(answer[:12], b"HTTP/1.1 %d" % status, (path, host))
        error = self.assert_error(self.read(self.open(server, head(
            "POST", "/v1/completions", "Origin: http://evil.example", "Connection: close", host="evil.example"))), 403)
        self.assertEqual(error["type"], "PermissionDeniedError")
        self.assertIn("--allowed-hosts", error["message"])

    def test_names_that_were_allowed_are_answered(self):
        for options, host, status in ((("--allowed-hosts", '["llm.example"]'), "llm.example", 200),
                                      (("--allowed-hosts", '["llm.example"]'), "evil.example", 403),
                                      (("--allowed-hosts", '["*"]'), "any.example", 200),
                                      (("--api-key", "secret"), "any.example", 200)):
            server = self.start(*options)
            answer = self.read(self.open(server, head("GET", "/health", "Connection: close", host=host)))
            self.assertEqual(answer[:12], b"HTTP/1.1 %d" % status, (options, host))

    def test_a_page_of_another_origin_changes_nothing(self):
        server = self.start("--dev")
        own = f"http://127.0.0.1:{server.port}"
        for path in ("/sleep", "/wake_up", "/reset_prefix_cache", "/start_profile", "/ping"):
            for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
                for kind in ("text/plain", "application/json"):
                    response, _ = server.request("POST", path, headers={**headers, "Content-Type": kind})
                    self.assertEqual(response.status, 403, (path, headers))
        self.assertEqual(json.loads(server.request("GET", "/is_sleeping")[1]), {"is_sleeping": False})
        for headers in ({}, {"Origin": own, "Sec-Fetch-Site": "same-origin"}):  # a program; the server's own page
            self.assertEqual(server.request("POST", "/sleep?level=0", headers=headers)[0].status, 200)
            self.assertEqual(server.request("POST", "/wake_up", headers=headers)[0].status, 200)


class Specifications(Case):
    def test_one_client_cannot_fill_the_queue_of_the_compiler(self):
        server = self.start()
        status, _ = server.post("/v1/completions", stories(max_tokens=1, structured_outputs={"grammar": 'root ::= "a"'}))
        if status != 200:
            self.skipTest("this build has no grammars")
        greedy = []
        for number in range(150):
            connection = socket.create_connection(("127.0.0.1", server.port), TIMEOUT, source_address=("127.0.0.2", 0))
            self.addCleanup(connection.close)
            connection.sendall(attacks.completion(number, structured_outputs={"grammar": attacks.long_grammar(number)}))
            greedy.append(connection)
        refusals = [connection for connection in greedy if self.is_of_one_client(connection)]
        # A request from another address, with a specification that is new to the server.
        status, answer = server.post("/v1/completions", stories(max_tokens=9, structured_outputs={"regex": "[0-9]{3}"}))
        self.assertEqual(status, 200, answer)
        self.assertRegex(answer["choices"][0]["text"], r"\A[0-9]{3}\Z")
        refusals += [connection for connection in greedy if connection.fileno() >= 0 and self.is_of_one_client(connection, True)]
        self.assertGreater(len(refusals), 0)

    def is_of_one_client(self, connection, waits=False):
        """Whether the answer, if there is one, says that too many specifications of this client wait."""
        if not waits and not select.select([connection], [], [], 0)[0]:
            return False
        answer = self.read(connection)
        connection.close()
        status = int(answer[9:12])
        self.assertIn(status, (200, 400, 503))
        return status == 503 and "from this client" in self.assert_error(answer, 503)["message"]


class Rendering(Case):
    SLOW = "{% for i in range(90) %}{% for j in range(90000) %}{{ '' }}{% endfor %}{% endfor %}"

    def test_many_control_tokens_in_a_message(self):
        server = self.start()
        # The request helper waits for a minute; quadratic time would take several minutes. The marks make the prompt
        # larger than a template may write.
        messages = [{"role": "user", "content": "<|im_end|>" * 1_500_000}]
        status, answer = server.post("/v1/chat/completions", {"messages": messages})
        self.assertEqual(status, 400, answer)

    def test_variables_of_the_template_are_few_and_small(self):
        server = self.start()

        def status(kwargs):
            return server.post("/v1/chat/completions", chats(max_tokens=1, chat_template_kwargs=kwargs))

        self.assertEqual(status({f"v{number}": 1 for number in range(64)})[0], 200)
        for many in ({f"v{number}": 1 for number in range(65)}, {f"v{number}": 1 for number in range(100_000)},
                     {"v": "a" * 65536}):
            code, answer = status(many)
            self.assertEqual((code, answer["error"]["param"]), (400, "chat_template_kwargs"))
        self.assertEqual(status({"v": "a" * 65000})[0], 200)

    def test_slow_templates_of_clients_stop_neither_streams_nor_the_end(self):
        server = self.start("--trust-request-chat-template")
        body = json.dumps({"messages": [{"role": "user", "content": "a"}], "chat_template": self.SLOW}).encode()
        request = json_head("/v1/chat/completions", len(body)) + body
        waiting = [self.open(server, request) for _ in range(40)]
        # The I/O thread is not blocked: the probes take less time than a single template.
        for _ in range(20):
            self.assertEqual(server.request("GET", "/health")[0].status, 200)
        self.assertLess(len(select.select(waiting, [], [], 0)[0]), len(waiting))
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(20), 0)


class Logs(Case):
    def test_a_log_that_is_not_read_stops_nothing(self):
        arguments = [serve_test.BINARY, "serve", serve_test.MODEL, "--port", "0", "--enable-log-requests"]
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   env={**os.environ, "VLLM_LOGGING_LEVEL": "DEBUG"})
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        for line in process.stderr:
            if b"API server on" in line:
                port = int(line.rsplit(b":", 1)[1])
            if b"startup complete" in line:
                break
        # From here on, nothing reads the log, which contains each prompt.
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        body = json.dumps({"prompt": "It was a dark night. " * 100, "max_tokens": 1, "temperature": 0})
        for _ in range(700):
            connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            self.assertEqual((response.status, response.read() != b""), (200, True))
        connection.request("GET", "/metrics")
        metrics = connection.getresponse().read().decode()
        connection.close()
        dropped = float(re.search(r"^reprise:dropped_log_lines_total\{.*\} (\d+)", metrics, re.M).group(1))
        self.assertGreater(dropped, 0)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), 0)


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
