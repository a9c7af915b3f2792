#!/usr/bin/env python3
"""The limits and strictness rules of docs/reference/server-limits.md, each at the limit and beyond it.

    server_rules_test.py REPRISE_BINARY MODEL_FOLDER

One server answers all requests: none of them is costly. Only Python's standard library.
"""

import json
import re
import sys
import unittest

import serve_test
from serve_test import NAME, chats, stories
from server_limits_test import MIB, Case, Server, head

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
CLOSE = "Connection: close"


def nested(depth):
    """A body whose deepest member lies at this depth."""
    return b'{"prompt": "a", "max_tokens": 1, "x": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


class Rules(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--max-logprobs", "20")

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, (code, cls.server.text())

    def ask(self, data):
        return self.read(self.open(self.server, data))

    def status_of(self, data):
        answer = self.ask(data)
        status = int(answer[9:12] or 0)
        if status >= 400:
            self.assert_error(answer, status)
        return status

    def post(self, path, body):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.status_of(head("POST", path, CLOSE, "Content-Type: application/json",
                                   f"Content-Length: {len(body)}") + body)

    # Sizes and numbers: (name, accepted, refused, status of the refusal).

    def test_sizes_of_a_head(self):
        def target(size):
            return head("GET", "/health?" + "a" * (size - len("/health?")), CLOSE)

        def header(size):  # name and value
            return head("GET", "/health", "X-Long: " + "a" * (size - len("X-Long")), CLOSE)

        def headers(count):  # Host and Connection are two
            return head("GET", "/health", *["A: a"] * (count - 2), CLOSE)

        def all_headers(size):
            lines = ["B: " + "b" * 7000] * 4
            return head("GET", "/health", *lines, "C: " + "c" * (size - len(head("GET", "/health", *lines, "C: ", CLOSE))),
                        CLOSE)

        for what, make, limit, status in (("target", target, 8192, 414), ("header", header, 8192, 431),
                                          ("count", headers, 100, 431)):
            for size, expected in ((limit - 1, 200), (limit, 200), (limit + 1, status)):
                self.assertEqual(self.status_of(make(size)), expected, (what, size))
        self.assertEqual(self.status_of(all_headers(32 * 1024 - 100)), 200)
        self.assertEqual(self.status_of(all_headers(32 * 1024 + 100)), 431)

    def test_sizes_of_a_body(self):
        for size, status in ((16 * MIB - 1, 400), (16 * MIB, 400), (16 * MIB + 1, 413)):
            self.assertEqual(self.post(COMPLETIONS, b" " * size), status, size)
        for depth, status in ((63, 200), (64, 200), (65, 400)):
            self.assertEqual(self.post(COMPLETIONS, nested(depth)), status, depth)
        # Besides the members: their texts, the body and the array.
        for count, status in ((199_991, 200), (199_992, 400)):
            body = json.dumps(stories(max_tokens=1)).encode()[:-1] + b', "x": [' + b"[]," * (count - 1) + b"[]]}"
            self.assertEqual(self.post(COMPLETIONS, body), status, count)
        for count, status in ((1 << 21, 200), ((1 << 21) + 1, 400)):  # max_tokens is a number too
            body = json.dumps(stories(max_tokens=1)).encode()[:-1] + b', "x": [' + b"1," * (count - 3) + b"1]}"
            self.assertEqual(self.post(COMPLETIONS, body), status, count)
        for count, status in ((1023, 200), (1024, 200), (1025, 400)):
            body = {**stories(max_tokens=1), **{f"x{number}": 1 for number in range(count - 4)}}
            self.assertEqual(len(body), count)
            self.assertEqual(self.post(COMPLETIONS, body), status, count)

    def test_refusals_quote_the_number_that_was_sent(self):
        for name, value in (("logprobs", -1), ("prompt_logprobs", -1), ("seed", 1 << 63)):
            _, answer = self.server.post(COMPLETIONS, stories(**{"max_tokens": 1, name: value}))
            self.assertIn(f"{name} is {value}", answer["error"]["message"])

    def test_numbers_of_a_request(self):
        greedy = {"max_tokens": 1, "temperature": 0}
        cases = (
            ("n", 128, lambda count: (COMPLETIONS, stories(n=count, temperature=1, max_tokens=1))),
            ("prompts", 256, lambda count: (COMPLETIONS, {"prompt": [[5]] * count, **greedy})),
            ("logprobs", 20, lambda count: (COMPLETIONS, stories(logprobs=count, max_tokens=1))),
            ("prompt_logprobs", 20, lambda count: (COMPLETIONS, stories(prompt_logprobs=count, max_tokens=1))),
            ("top_logprobs", 20, lambda count: (CHAT, chats(logprobs=True, top_logprobs=count, max_tokens=1))),
            ("stop", 16, lambda count: (COMPLETIONS, stories(stop=["x"] * count, max_tokens=1))),
            ("bytes of stop", 4096, lambda count: (COMPLETIONS, stories(stop="x" * count, max_tokens=1))),
            ("stop_token_ids", 1024, lambda count: (COMPLETIONS, stories(stop_token_ids=[5] * count, max_tokens=1))),
            ("logit_bias", 1024, lambda count: (COMPLETIONS, stories(
                logit_bias={str(number % 1024) if number < 1024 else "9999": 1 for number in range(count)},
                max_tokens=1))),
            ("bad_words", 128, lambda count: (COMPLETIONS, stories(bad_words=["x"] * count, max_tokens=1))),
            ("cache_salt", 1024, lambda count: (COMPLETIONS, stories(cache_salt="x" * count, max_tokens=1))),
            ("request_id", 128, lambda count: (COMPLETIONS, stories(request_id="x" * count, max_tokens=1))),
            ("tools", 128, lambda count: (CHAT, chats(tools=[
                {"type": "function", "function": {"name": f"f{number}"}} for number in range(count)], tool_choice="none", max_tokens=1))),
            ("chat_template_kwargs", 64, lambda count: (CHAT, chats(
                chat_template_kwargs={f"v{number}": 1 for number in range(count)}, max_tokens=1))),
        )
        for what, limit, make in cases:
            for count, expected in ((limit - 1, 200), (limit, 200), (limit + 1, 400)):
                path, body = make(count)
                status = self.post(path, body)
                if what == "tools" and expected == 200:
                    self.assertNotIn(status, (413, 500), what)  # too long for the tiny model's context
                    continue
                self.assertEqual(status, expected, (what, count))
        message = {"role": "user", "content": ""}
        for count in (4096, 4097):
            _, answer = self.server.post(CHAT, {"messages": [message] * count})
            self.assertEqual(answer["error"]["param"], "messages" if count > 4096 else "input_tokens", count)

    # Strictness.

    def test_json_is_read_strictly(self):
        good = b'{"prompt": "a", "max_tokens": 1}'
        self.assertEqual(self.post(COMPLETIONS, good), 200)
        for bad in (b"\xef\xbb\xbf" + good, good + b"x", good[:-1] + b",}", good.replace(b'"', b"'"),
                    b'{"prompt": "\\ud800", "max_tokens": 1}', b'{"prompt": "\xc0\x80", "max_tokens": 1}',
                    b'{"prompt": "a\x00", "max_tokens": 1}', b'{"prompt": "a", "max_tokens": 1, "x": 1e400}',
                    b'{"prompt": "a", "max_tokens": 1, "max_tokens": 1}', b'{"prompt": "a", "max_tokens": 1.5}',
                    b'{"prompt": "a", "max_tokens": true}', b'{"prompt": "a", "max_tokens": 01}',
                    b'{"prompt": "a", "logit_bias": {"+5": 1}}', b'{"prompt": "a", "logit_bias": {" 5": 1}}',
                    good.decode().encode("utf-16")):
            self.assertEqual(self.post(COMPLETIONS, bad), 400, bad)

    def test_json_in_the_texts_of_a_request_counts_together(self):
        def chat(num_calls, arguments):
            call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
            return chats(messages=[{"role": "assistant", "content": "", "tool_calls": [call] * num_calls},
                                   {"role": "user", "content": "a"}])

        for num_calls, arguments, is_refused in ((1, '{"a": [' + "[]," * 199_996 + "[]]}", False), (1, '{"a": [' + "[]," * 199_997 + "[]]}", True),
                                                 (3, '{"a": [' + "[]," * 70_000 + "[]]}", True), (1, '{"a": [' + "1," * 199_999 + "1]}", False), (1, '{"a": [' + "1," * 200_000 + "1]}", True),
                                                 (2, '{"a": [' + '"",' * 120_000 + '""]}', True), (1, "[" * 65 + "]" * 65, False)):  # as arguments that were cut
            status, answer = self.server.post(CHAT, chat(num_calls, arguments))
            self.assertEqual((status == 400, "arguments" in str(answer)), (is_refused, is_refused), (arguments[:20], answer))

    def test_fields_that_could_be_read_in_two_ways_are_refused(self):
        def named(*names):
            return chats(tools=[{"type": "function", "function": {"name": name}} for name in names], tool_choice="none", max_tokens=1)

        for path, body, what in ((COMPLETIONS, stories(logit_bias={"7": 1, "007": 2}), "token 7 twice"),
                                 (COMPLETIONS, stories(allowed_token_ids=[]), "allowed_token_ids is empty"),
                                 (COMPLETIONS, stories(temperature=1e308), "temperature is 1e+308"),
                                 (COMPLETIONS, stories(model="ti\0ny"), r"ti\u{0}ny"),
                                 (CHAT, named("f", "g", "f"), "Two functions have the name 'f'"),
                                 (CHAT, named("a\u202eb"), r"a\u{202e}b"), (CHAT, named("a\nb"), r"a\u{a}b"),
                                 (CHAT, named("a\x1b[31m"), r"\u{1b}")):
            status, answer = self.server.post(path, body)
            self.assertEqual(status, 404 if "{0}" in what else 400, answer)
            self.assertIn(what, answer["error"]["message"])
        for triggers in ([""], [], ["<a", 5], "<a"):
            tag = json.dumps({"structures": [{"begin": "<a>", "schema": {}, "end": "</a>"}], "triggers": triggers})
            status, answer = self.server.post(COMPLETIONS, stories(structured_outputs={"structural_tag": tag}, max_tokens=1))
            self.assertEqual(status, 400, answer)
            self.assertRegex(answer["error"]["message"], "`triggers` must be a list|no structured output")
        # Names that vLLM accepts are accepted, although OpenAI's own rule for names is narrower.
        for body in (named("../get weather", "größe"), stories(logit_bias={"007": 1}, max_tokens=1),
                     {**chats(max_tokens=1), "max_completion_tokens": 1}):
            path = COMPLETIONS if "prompt" in body else CHAT
            status, answer = self.server.post(path, body)
            self.assertTrue(status == 200 or "input_tokens" == answer["error"]["param"], answer)

    def test_http_is_read_strictly(self):
        local = b"Host: localhost\r\n"
        for bad, status in (
            (b"GET /health HTTP/1.1\n" + local.replace(b"\r", b"") + b"\n", 400),
            (b"GET /health HTTP/1.1\r\n" + local.replace(b"\r", b"") + b"\r\n", 400),
            (b"GET /health HTTP/1.1\r\n\r\n", 400),
            (b"GET /health HTTP/1.1\r\n" + local * 2 + b"\r\n", 400),
            (b"GET /health HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
            (b"GET /health HTTP/1.1\r\n" + local + b"Content-Length: +1\r\n\r\na", 400),
            (b"GET /health HTTP/1.1\r\n" + local + b"Content-Length: 0x1\r\n\r\na", 400),
            (b"GET /health HTTP/1.1\r\n" + local + b"Content-Length: 99999999999999999999\r\n\r\n", 400),
            (b"GET /health HTTP/1.1\r\n" + local + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na", 400),
            (b"GET /health HTTP/1.1\r\n" + local + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
            (b"GET /health HTTP/1.1\r\n" + local + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            (b"GET /health HTTP/1.0\r\n" + local + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
            (b"POST /ping HTTP/1.1\r\n" + local + b"Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n", 415),
            (b"GET /health HTTP/2.0\r\n" + local + b"\r\n", 505),
            (b"BREW /health HTTP/1.1\r\n" + local + b"\r\n", 501),
            (b"PUT /health HTTP/1.1\r\n" + local + b"Connection: close\r\n\r\n", 405),
        ):
            self.assertEqual(self.status_of(bad), status, bad)

    def test_pipelined_requests_are_answered_in_order(self):
        paths = [f"/nothing-{number}" if number % 2 else "/version" for number in range(16)]
        answer = self.ask(b"".join(head("GET", path) for path in paths[:-1]) + head("GET", paths[-1], CLOSE))
        statuses = [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", answer)]
        self.assertEqual(statuses, [404 if "nothing" in path else 200 for path in paths])

    def test_what_a_request_puts_into_headers_and_the_log_is_short_and_visible(self):
        _, text = self.server.request("GET", "/nowhere-" + "a" * 4000)
        self.server.wait_until(lambda: "/nowhere-" in self.server.text())
        self.assertLess(max(map(len, self.server.text().splitlines())), 400)
        for sent in ("x" * 129, "a b", "a\x80"):
            answer = self.ask(head("POST", COMPLETIONS, CLOSE, "Content-Type: application/json",
                                   f"X-Request-Id: {sent}", "Content-Length: 32")
                              + b'{"prompt": "a", "max_tokens": 1}')
            self.assertTrue(answer.startswith(b"HTTP/1.1 200"))
            self.assertNotIn(sent.encode("latin-1"), answer)

    def test_pages_cannot_fill_the_headers_of_answers(self):
        server = self.start("--allowed-origins", '["*"]', "--allow-credentials")
        for size, is_named in ((100, True), (4000, False)):
            origin = "https://" + "a" * size
            response, _ = server.request("GET", "/health", headers={"Origin": origin})
            self.assertEqual(response.getheader("Access-Control-Allow-Origin"), origin if is_named else None)
            asked = "x-" + "a" * size
            response, _ = server.request("OPTIONS", COMPLETIONS, headers={
                "Origin": "https://a", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": asked})
            self.assertEqual(response.getheader("Access-Control-Allow-Headers"), asked if is_named else None)

    # Defaults.

    def test_errors_have_the_headers_that_clients_need(self):
        answer = self.ask(head("GET", COMPLETIONS, CLOSE))
        self.assertEqual(self.assert_error(answer, 405)["type"], "MethodNotAllowedError")
        self.assertIn(b"Allow: POST\r\n", answer)

    def test_no_route_loads_adapters_or_files_and_none_is_for_developers(self):
        for path in ("/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/pause", "/update_weights", "/sleep",
                     "/wake_up", "/reset_prefix_cache", "/collective_rpc", "/invocations"):
            self.assertEqual(self.post(path, b"{}"), 404, path)
        self.assertEqual(self.status_of(head("GET", "/server_info", CLOSE)), 404)

    def test_texts_are_not_logged(self):
        marker = "Zanzibar"
        self.assertEqual(self.post(COMPLETIONS, stories(prompt=marker, echo=True, max_tokens=1)), 200)
        self.assertEqual(self.post(CHAT, chats(messages=[{"role": "user", "content": marker}], max_tokens=1)), 200)
        self.assertEqual(self.post(COMPLETIONS, stories(prompt=marker, max_tokens=0)), 400)
        self.assertNotIn(marker, self.server.log_so_far())

    def test_errors_do_not_tell_where_files_are(self):
        for path, body in ((COMPLETIONS, {"model": "other", "prompt": "a"}),
                           (CHAT, chats(messages=[{"role": "tool", "content": "x"}], chat_template="{{ 1/0 }}"))):
            _, text = self.server.request("POST", path, body)
            self.assertNotIn(serve_test.MODEL, text.decode())
        _, text = self.server.request("GET", "/v1/models")
        self.assertEqual([model["id"] for model in json.loads(text)["data"]], [NAME])


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
