#!/usr/bin/env python3
"""`reprise serve` as its clients meet it: a real process, the bundled model, sockets.

    serve_test.py REPRISE_BINARY MODEL_FOLDER

Uses only Python's standard library.
"""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BINARY = MODEL = None
NAME = "tiny"
# Fields that are read only to refuse every value that would change something, as on servers with default options.
NOT_DESCRIBED = {"chat_template", "best_of"}
TIMEOUT = 300  # for things that usually take a moment; on a machine with thirty other programs they take long


class Server:
    def __init__(self, *options, **environment):
        self.log = tempfile.TemporaryFile()
        arguments = [BINARY, "serve", MODEL, "--port", "0", "--served-model-name", NAME, "--max-num-seqs", "32"]
        kept = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
        self.process = subprocess.Popen(
            [*arguments, *options], stdout=subprocess.DEVNULL, stderr=self.log, env={**kept, **environment}
        )
        deadline = time.monotonic() + TIMEOUT
        while "Application startup complete." not in self.text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("the server did not start:\n" + self.text())
            time.sleep(0.02)
        self.port = int(re.search(r"server on https?://127\.0\.0\.1:(\d+)\b", self.text()).group(1))

    def text(self):
        if self.log.closed:
            return self.last_words
        return os.pread(self.log.fileno(), 1 << 20, 0).decode("utf-8", "replace")

    def log_so_far(self):
        """The log with every line up to now; a thread of the server writes lines in their order."""
        marker = f"/version?log={time.monotonic_ns()}"
        self.request("GET", marker)
        self.wait_until(lambda: marker in self.text())
        return self.text()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)

    def request(self, method, path, body=None, headers=None):
        connection = self.connect()
        try:
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            if isinstance(body, str):
                body = body.encode()
            connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()

    def post(self, path, body, headers=None):
        response, text = self.request("POST", path, body, headers)
        return response.status, json.loads(text)

    def raw(self, data, timeout=TIMEOUT):
        """What comes back for these bytes until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            connection.sendall(data)
            received = b""
            while piece := connection.recv(65536):
                received += piece
            return received

    def metric(self, name, labels=""):
        _, text = self.request("GET", "/metrics")
        for line in text.decode().splitlines():
            if line.startswith(name + "{") and labels in line:
                return float(line.rsplit(" ", 1)[1])
        raise AssertionError(f"no metric {name} {labels}")

    def wait_until(self, condition):
        deadline = time.monotonic() + TIMEOUT
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError("timed out:\n" + self.text())
            time.sleep(0.02)

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.last_words = self.text()
            self.log.close()


def events(text):
    """The JSON of a stream; fails unless it ends as streams must."""
    blocks = text.decode().split("\n\n")
    assert blocks[-2:] == ["data: [DONE]", ""], blocks[-3:]
    assert all(block.startswith("data: ") for block in blocks[:-1]), blocks
    return [json.loads(block[len("data: ") :]) for block in blocks[:-2]]


def stories(**fields):
    return {"model": NAME, "prompt": "Once upon a time", "temperature": 0, "max_tokens": 20, **fields}


def chats(**fields):
    return {"model": NAME, "messages": [{"role": "user", "content": "What is 3 + 4?"}], "temperature": 0,
            "max_tokens": 20, **fields}


class Routes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, (code, cls.server.text())

    def assert_error(self, status, answer, expected, param=None):
        self.assertEqual(status, expected, answer)
        self.assertEqual(set(answer["error"]), {"message", "type", "param", "code"})
        self.assertEqual(answer["error"]["code"], expected)
        self.assertEqual(answer["error"]["param"], param, answer)
        self.assertTrue(answer["error"]["type"].endswith("Error"))

    def test_probes(self):
        for method, path in (("GET", "/health"), ("GET", "/ping"), ("POST", "/ping")):
            response, text = self.server.request(method, path)
            self.assertEqual((response.status, text), (200, b""), path)
        for path in ("/health", "/v1/models", "/metrics", "/openapi.json", f"/v1/models/{NAME}"):
            response, text = self.server.request("HEAD", path)
            self.assertEqual((response.status, text), (200, b""), path)
            self.assertEqual(response.headers["Content-Type"],
                             self.server.request("GET", path)[0].headers["Content-Type"], path)
        response, _ = self.server.request("HEAD", "/v1/completions")
        self.assertEqual((response.status, response.headers["Allow"]), (405, "POST"))
        response, _ = self.server.request("HEAD", "/v1/models/other")
        self.assertEqual(response.status, 404)
        response, text = self.server.request("GET", "/version?x=1")
        self.assertEqual(response.headers["X-Unused-Fields"], "?x")
        self.assertRegex(json.loads(text)["version"], r"^\d+\.\d+")

    def test_load_counts_requests(self):
        _, text = self.server.request("GET", "/load")
        self.assertEqual(json.loads(text), {"server_load": 0})

    def test_tokenizer_info(self):
        _, text = self.server.request("GET", "/tokenizer_info")
        info = json.loads(text)
        self.assertEqual(info["eos_token"], "<|im_end|>")
        self.assertIsNone(info["bos_token"])
        self.assertIn("<|im_start|>", info["chat_template"])
        # lm_eval asks for the id in this way.
        _, answer = self.server.post("/tokenize", {"prompt": info["eos_token"], "add_special_tokens": False})
        self.assertEqual(len(answer["tokens"]), 1)

    def test_the_description_names_every_field_that_is_read(self):
        _, text = self.server.request("GET", "/openapi.json")
        document = json.loads(text)
        self.assertEqual(document["openapi"], "3.1.0")
        schemas = document["components"]["schemas"]
        described = {"audio", "whitespace_pattern"}  # read in order to refuse them

        def add_names(schema):
            if isinstance(schema, dict):
                described.update(schema.get("properties", {}))
                schema = list(schema.values())
            if isinstance(schema, list):
                for part in schema:
                    add_names(part)

        add_names(schemas)
        folder = os.path.join(os.path.dirname(__file__), "../../src/reprise/server/openai")
        read = set()
        for name in ("generation_request", "sampling_fields", "chat_template_fields", "chat_messages",
                     "tokenize_request", "structured_fields", "tool_fields"):
            with open(os.path.join(folder, name + ".cpp"), encoding="utf-8") as file:
                read |= set(re.findall(r'\b(?:fields|inner|message|part)\.\w+\(\s*"(\w+)"', file.read()))
        self.assertIn("temperature", read)
        self.assertEqual(read - described - NOT_DESCRIBED, set(), "describe them in server/api_schemas.cpp")

    def test_every_described_path_exists(self):
        _, text = self.server.request("GET", "/openapi.json")
        _, kept = self.server.post("/v1/responses", {"input": "Hi", "max_output_tokens": 1})
        for path, operations in json.loads(text)["paths"].items():
            for name, value in {"model_id": NAME, "response_id": kept["id"], "file": "chat.css"}.items():
                path = path.replace(f"{{{name}}}", value)
            for method in operations:
                response, _ = self.server.request(method.upper(), path, "{}")
                self.assertNotIn(response.status, (404, 405), path)
                self.assertLess(response.status, 500, path)

    def test_models(self):
        response, text = self.server.request("GET", "/v1/models")
        (model,) = json.loads(text)["data"]
        self.assertEqual((model["id"], model["object"]), (NAME, "model"))
        self.assertEqual(model["root"], str(MODEL), "clients load the tokenizer from there")
        self.assertGreater(model["max_model_len"], 0)
        response, text = self.server.request("GET", f"/v1/models/{NAME}")
        self.assertEqual(json.loads(text)["id"], NAME)
        response, text = self.server.request("GET", "/v1/models/other%2Fmodel")
        self.assert_error(response.status, json.loads(text), 404, "model")
        self.assertIn("other/model", json.loads(text)["error"]["message"])

    def test_metrics_have_one_help_and_type_per_family(self):
        response, text = self.server.request("GET", "/metrics")
        self.assertTrue(response.headers["Content-Type"].startswith("text/plain; version=0.0.4"))
        lines = text.decode().splitlines()
        families = [line.split()[2] for line in lines if line.startswith("# TYPE")]
        self.assertEqual(len(families), len(set(families)))
        for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "prompt_tokens_total",
                     "generation_tokens_total", "num_preemptions_total", "request_success_total"):
            self.assertIn("vllm:" + name, families)

    def test_completion(self):
        status, answer = self.server.post("/v1/completions", stories(), {"X-Request-Id": "abc"})
        self.assertEqual(status, 200, answer)
        self.assertEqual((answer["object"], answer["id"], answer["model"]), ("text_completion", "cmpl-abc", NAME))
        (choice,) = answer["choices"]
        self.assertEqual(choice["finish_reason"], "length")
        self.assertTrue(choice["text"])
        self.assertEqual(answer["usage"]["completion_tokens"], 20)
        self.assertEqual(answer["usage"]["total_tokens"], answer["usage"]["prompt_tokens"] + 20)

    def test_completion_streams_the_same_text(self):
        _, whole = self.server.post("/v1/completions", stories())
        response, text = self.server.request(
            "POST", "/v1/completions", stories(stream=True, stream_options={"include_usage": True}))
        self.assertEqual(response.headers["Content-Type"], "text/event-stream; charset=utf-8")
        chunks = events(text)
        self.assertEqual("".join(c["choices"][0]["text"] for c in chunks[:-1]), whole["choices"][0]["text"])
        self.assertEqual(chunks[-2]["choices"][0]["finish_reason"], "length")
        self.assertEqual(chunks[-1]["choices"], [])
        self.assertEqual(chunks[-1]["usage"], whole["usage"])

    def test_chat_streams_the_same_text(self):
        status, whole = self.server.post("/v1/chat/completions", chats())
        self.assertEqual(status, 200, whole)
        self.assertEqual(whole["object"], "chat.completion")
        self.assertEqual(whole["choices"][0]["message"]["role"], "assistant")
        _, text = self.server.request("POST", "/v1/chat/completions", chats(stream=True))
        chunks = events(text)
        self.assertEqual(chunks[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        self.assertEqual("".join(c["choices"][0]["delta"]["content"] for c in chunks),
                         whole["choices"][0]["message"]["content"])
        self.assertIn(chunks[-1]["choices"][0]["finish_reason"], ("stop", "length"))

    def test_continuous_usage_counts_up(self):
        _, text = self.server.request("POST", "/v1/completions", stories(
            stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True}))
        counts = [chunk["usage"]["completion_tokens"] for chunk in events(text)]
        self.assertEqual(counts, sorted(counts))
        self.assertEqual(counts[-1], 20)

    def test_continuous_usage_is_that_of_the_chunk(self):
        """As in vLLM: no token with the role, and of several answers each counts its own tokens."""
        options = {"include_usage": True, "continuous_usage_stats": True}
        _, text = self.server.request("POST", "/v1/chat/completions", chats(
            stream=True, n=2, temperature=1, seed=1, max_tokens=6, ignore_eos=True, stream_options=options))
        *chunks, last = events(text)
        counts = {0: [], 1: []}
        for chunk in chunks:
            choice, = chunk["choices"]
            counts[choice["index"]].append(chunk["usage"]["completion_tokens"])
            self.assertEqual(chunk["usage"]["prompt_tokens"], last["usage"]["prompt_tokens"])
        self.assertEqual(counts, {0: list(range(7)), 1: list(range(7))})
        self.assertEqual(last["usage"]["completion_tokens"], 12)
        _, text = self.server.request("POST", "/v1/completions", stories(
            prompt=["Once upon a time", "One"], stream=True, max_tokens=4, stream_options=options))
        *chunks, last = events(text)
        prompts = {chunk["choices"][0]["index"]: chunk["usage"]["prompt_tokens"] for chunk in chunks}
        self.assertEqual(sum(prompts.values()), last["usage"]["prompt_tokens"])
        self.assertGreater(prompts[0], prompts[1])

    def test_several_prompts_and_several_answers(self):
        status, answer = self.server.post(
            "/v1/completions", stories(prompt=["Once", "One day"], n=3, temperature=1, seed=5, max_tokens=8))
        self.assertEqual(status, 200, answer)
        self.assertEqual([choice["index"] for choice in answer["choices"]], list(range(6)))
        self.assertGreater(len({choice["text"] for choice in answer["choices"][:3]}), 1)
        _, again = self.server.post(
            "/v1/completions", stories(prompt=["Once", "One day"], n=3, temperature=1, seed=5, max_tokens=8))
        self.assertEqual([c["text"] for c in again["choices"]], [c["text"] for c in answer["choices"]])

    def test_stop_string(self):
        _, whole = self.server.post("/v1/completions", stories(max_tokens=40))
        stop = whole["choices"][0]["text"].split()[3]
        _, answer = self.server.post("/v1/completions", stories(max_tokens=40, stop=[stop]))
        (choice,) = answer["choices"]
        self.assertEqual((choice["finish_reason"], choice["stop_reason"]), ("stop", stop))
        self.assertNotIn(stop, choice["text"])
        self.assertTrue(whole["choices"][0]["text"].startswith(choice["text"]))

    def test_tokenize_and_back_and_as_a_prompt(self):
        status, tokens = self.server.post("/tokenize", {"prompt": "Once upon a time", "return_token_strs": True})
        self.assertEqual(status, 200, tokens)
        self.assertEqual(tokens["count"], len(tokens["tokens"]))
        self.assertEqual(len(tokens["token_strs"]), tokens["count"])
        _, plain = self.server.post("/tokenize", {"prompt": "Once upon a time", "add_special_tokens": False})
        _, text = self.server.post("/detokenize", {"tokens": plain["tokens"]})
        self.assertEqual(text["prompt"], "Once upon a time")
        _, chat = self.server.post("/tokenize", {"messages": chats()["messages"]})
        self.assertGreater(chat["count"], 3)
        _, by_text = self.server.post("/v1/completions", stories())
        _, by_ids = self.server.post("/v1/completions", stories(prompt=tokens["tokens"]))
        self.assertEqual(by_ids["choices"][0]["text"], by_text["choices"][0]["text"])

    def test_one_connection_takes_many_requests(self):
        connection = self.server.connect()
        for _ in range(5):
            connection.request("POST", "/v1/completions", json.dumps(stories(max_tokens=2)),
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            self.assertEqual(response.status, 200)
            response.read()
            connection.request("GET", "/nowhere")
            response = connection.getresponse()
            self.assertEqual(response.status, 404)
            response.read()
            self.assertFalse(response.will_close)
        connection.close()

    def test_pipelined_requests_are_answered_in_order(self):
        one = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
        body = json.dumps(stories(max_tokens=4)).encode()
        post = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                % len(body)) + body
        last = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        answer = self.server.raw(post + one + last)
        self.assertEqual(re.findall(rb"HTTP/1.1 (\d+)", answer), [b"200", b"200", b"404"])

    def test_twenty_streams_at_once(self):
        _, whole = self.server.post("/v1/completions", stories(max_tokens=60))
        texts, failures = [None] * 20, []

        def stream(index):
            try:
                _, text = self.server.request("POST", "/v1/completions", stories(stream=True, max_tokens=60))
                texts[index] = "".join(chunk["choices"][0]["text"] for chunk in events(text))
            except Exception as error:  # pylint: disable=broad-except
                failures.append(repr(error))

        threads = [threading.Thread(target=stream, args=(i,)) for i in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(set(texts), {whole["choices"][0]["text"]})

    def check_disconnect(self, stream):
        """The counter of aborts goes up by the eight answers, and nothing runs on."""
        before = self.server.metric("vllm:request_success_total", 'finished_reason="abort"')
        long = stories(max_tokens=900, ignore_eos=True, n=8, temperature=1, stream=stream)
        connection = self.server.connect()
        connection.request("POST", "/v1/completions", json.dumps(long), {"Content-Type": "application/json"})
        response = None
        if stream:
            response = connection.getresponse()
            response.read(64)
        else:
            self.server.wait_until(lambda: self.server.metric("vllm:num_requests_running") == 8)
        if response:
            response.close()
        connection.close()
        self.server.wait_until(
            lambda: self.server.metric("vllm:request_success_total", 'finished_reason="abort"') == before + 8)
        self.server.wait_until(lambda: self.server.metric("vllm:num_requests_running") == 0)

    def test_a_client_that_goes_aborts_its_request(self):
        self.check_disconnect(stream=False)

    def test_a_client_that_goes_aborts_its_stream(self):
        self.check_disconnect(stream=True)

    def test_a_client_that_does_not_read_is_cut_off(self):
        before = self.server.metric("vllm:request_success_total", 'finished_reason="abort"')
        # Several times the size that a socket and the server's queue hold.
        body = json.dumps(stories(max_tokens=900, ignore_eos=True, n=64, temperature=1, stream=True)).encode()
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", self.server.port))
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                               b"Content-Length: %d\r\n\r\n" % len(body) + body)
            self.server.wait_until(
                lambda: self.server.metric("vllm:request_success_total", 'finished_reason="abort"') > before)
        self.server.wait_until(lambda: self.server.metric("vllm:num_requests_running") == 0)

    def test_bad_bodies(self):
        cases = [
            (b"", None), (b"{", None), (b"[1]", None), (b"null", None), (b'{"prompt": "\xff"}', None),
            (b'{"prompt": "a", "temperature": 1e999}', None), (b"[" * 100000, None),
            (b'{"a":' * 100000, None), (b'{"prompt": "a", "max_tokens": 1' + b"0" * 5000 + b"}", None),
            (b'{"prompt": "a", "prompt": "b"}', None),
            (b"{}", "prompt"), (b'{"prompt": ""}', "prompt"), (b'{"prompt": [[]]}', "prompt"),
            (b'{"prompt": [999999]}', "prompt"), (b'{"prompt": "a", "max_tokens": "five"}', "max_tokens"),
            (b'{"prompt": "a", "max_tokens": 1000000}', "input_tokens"),
            (b'{"prompt": "a", "temperature": -1}', "temperature"), (b'{"prompt": "a", "n": 0}', "n"),
            (b'{"prompt": "a", "n": 2000, "temperature": 1}', "n"), (b'{"prompt": "a", "logprobs": 21}', "logprobs"),
            (b'{"prompt": "a", "response_format": {"type": "json"}}', "response_format"),
            (json.dumps({"prompt": "word " * 5000}).encode(), "input_tokens"),
            (json.dumps({"prompt": "w" * 10_000_000}).encode(), "input_tokens"),
        ]
        for body, param in cases:
            with self.subTest(body[:60]):
                status, answer = self.server.post("/v1/completions", body)
                if param is None and status == 400 and answer["error"]["param"] is not None:
                    self.assertEqual(body[:13], b'{"prompt": "a')
                    continue
                self.assert_error(status, answer, 400, param)
        status, answer = self.server.post("/v1/completions", stories(model="other"))
        self.assert_error(status, answer, 404, "model")
        status, answer = self.server.post("/v1/chat/completions", chats(tools=[{"type": "function"}]))
        self.assert_error(status, answer, 400, "tools")
        status, answer = self.server.post("/v1/completions", stories(max_tokens=5000))
        self.assertTrue(answer["error"]["message"].startswith("This model's maximum context length is "))

    def test_bad_requests(self):
        for method, path, expected in (("GET", "/v1/completions", 405), ("DELETE", "/health", 405),
                                       ("POST", "/v1/nowhere", 404), ("GET", "/nothing", 404), ("BREW", "/health", 501),
                                       ("PROPFIND", "/health", 405)):
            with self.subTest(f"{method} {path}"):
                response, text = self.server.request(method, path, b"{}" if method == "POST" else None)
                self.assert_error(response.status, json.loads(text), expected)
                self.assertEqual("Allow" in response.headers, expected == 405)
        status, answer = self.server.post("/v1/completions", stories(), {"Content-Type": "text/plain"})
        self.assert_error(status, answer, 415)
        status, answer = self.server.post("/v1/completions", stories(), {"Content-Encoding": "gzip"})
        self.assert_error(status, answer, 415)

    def test_bodies_that_are_too_large(self):
        status, answer = self.server.post("/v1/completions", b" " * (16 * 1024 * 1024 + 1))
        self.assert_error(status, answer, 413)
        chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
        head = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n")
        self.assertTrue(self.server.raw(head + chunk * 260 + b"0\r\n\r\n").startswith(b"HTTP/1.1 413"))

    def test_broken_http(self):
        host = b"Host: localhost\r\n"
        cases = [
            (b"nonsense\r\n\r\n", b"400"),
            (b"GET /health HTTP/1.1\r\n\r\n", b"400"),
            (b"GET /health HTTP/1.1\r\n" + host + host + b"\r\n", b"400"),
            (b"GET /health HTTP/3.0\r\n" + host + b"\r\n", b"505"),
            (b"GET /" + b"a" * 10000 + b" HTTP/1.1\r\n" + host + b"\r\n", b"414"),
            (b"GET /health HTTP/1.1\r\n" + host + b"A: " + b"a" * 40000 + b"\r\n\r\n", b"431"),
            (b"GET /health HTTP/1.1\r\n" + host + b"A: a\r\n" * 101 + b"\r\n", b"431"),
            (b"POST /ping HTTP/1.1\r\n" + host + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", b"400"),
            (b"POST /ping HTTP/1.1\r\n" + host + b"Content-Length: -1\r\n\r\n", b"400"),
            (b"POST /ping HTTP/1.1\r\n" + host + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
             b"400"),
            (b"POST /ping HTTP/1.1\r\n" + host + b"Transfer-Encoding: gzip\r\n\r\n", b"400"),
            (b"POST /ping HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
        ]
        for data, status in cases:
            with self.subTest(data[:70]):
                answer = self.server.raw(data)
                self.assertEqual(answer[:12], b"HTTP/1.1 " + status)
                self.assertEqual(json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]["code"], int(status))

    def test_http_1_0_streams_until_the_connection_closes(self):
        body = json.dumps(stories(stream=True)).encode()
        answer = self.server.raw(b"POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                                 % len(body) + body)
        head, text = answer.split(b"\r\n\r\n", 1)
        self.assertNotIn(b"chunked", head)
        self.assertGreater(len(events(text)), 1)

    def test_a_slow_header_is_cut_off_and_blocks_nobody(self):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=TIMEOUT) as connection:
            connection.sendall(b"GET /health HT")
            response, _ = self.server.request("GET", "/health")
            self.assertEqual(response.status, 200)
            self.assertEqual(connection.recv(12), b"HTTP/1.1 408")

    def test_expect_100_continue(self):
        body = json.dumps(stories(max_tokens=1)).encode()
        head = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
                b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=TIMEOUT) as connection:
            connection.sendall(head)
            self.assertEqual(connection.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.sendall(body)
            self.assertTrue(connection.recv(1000).startswith(b"HTTP/1.1 200"))


class Development(unittest.TestCase):
    def test_routes_for_developers_are_there_when_asked_for(self):
        server = Server("--enable-prompt-tokens-details", VLLM_SERVER_DEV_MODE="1")
        self.addCleanup(server.stop)
        _, text = server.request("GET", "/server_info")
        info = json.loads(text)["vllm_config"]
        self.assertEqual(info["compilation_config"]["cudagraph_mode"], "FULL_AND_PIECEWISE")
        self.assertEqual(info["scheduler_config"]["max_num_seqs"], 32)

        def cached_tokens():
            _, answer = server.post("/v1/completions", {"prompt": "Once upon a time " * 20, "max_tokens": 1})
            return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

        self.assertEqual(cached_tokens(), 0)
        self.assertGreater(cached_tokens(), 16)
        response, _ = server.request("POST", "/reset_prefix_cache")
        self.assertEqual(response.status, 200)
        self.assertEqual(cached_tokens(), 0)
        _, description = server.request("GET", "/openapi.json")
        self.assertIn("/reset_prefix_cache", json.loads(description)["paths"])

    def test_prefixes_in_use_are_not_forgotten(self):
        server = Server("--dev")
        self.addCleanup(server.stop)
        long = stories(max_tokens=900, ignore_eos=True, n=4, temperature=1, stream=True)
        connection = server.connect()
        self.addCleanup(connection.close)
        connection.request("POST", "/v1/completions", json.dumps(long), {"Content-Type": "application/json"})
        connection.getresponse()
        status, answer = server.post("/reset_prefix_cache", None)
        self.assertEqual((status, answer["error"]["type"]), (409, "ConflictError"))

    def test_others_get_none_of_them(self):
        server = Server()
        self.addCleanup(server.stop)
        for method, path in (("GET", "/server_info"), ("POST", "/reset_prefix_cache"), ("POST", "/sleep"),
                             ("POST", "/wake_up"), ("GET", "/is_sleeping")):
            response, _ = server.request(method, path)
            self.assertEqual(response.status, 404)


class Flags(unittest.TestCase):
    def chunks(self, server, **fields):
        """The number of tokens of each chunk of a stream of 11 tokens."""
        body = {"prompt": "Once", "max_tokens": 11, "ignore_eos": True, "stream": True, "return_token_ids": True}
        _, text = server.request("POST", "/v1/completions", {**body, **fields})
        return [len(event["choices"][0]["token_ids"] or []) for event in events(text)]

    def test_stream_interval(self):
        server = Server("--stream-interval", "4")
        try:
            self.assertEqual(self.chunks(server), [1, 4, 4, 2])
            self.assertEqual(self.chunks(server, stream_interval=1), [1] * 11)  # the request's own counts
            self.assertEqual(self.chunks(server, stream_interval=100), [1, 10])
        finally:
            server.stop()
        for value in ("0", "-1", "x"):
            done = subprocess.run([BINARY, "serve", MODEL, "--stream-interval", value], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn("--stream-interval", done.stderr)

    """Flags that change what requests mean."""

    TURNS = [{"role": "user", "content": "hi"}]

    def start(self, *options):
        server = Server(*options)
        self.addCleanup(server.stop)
        return server

    def test_a_template_of_ones_own(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
            file.write("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{{ flavour }}")
            file.flush()
            server = self.start("--chat-template", file.name, "--default-chat-template-kwargs.flavour", "sweet",
                                "--trust-request-chat-template", "--response-role", "model")
            self.assertIn("flavour", json.loads(server.request("GET", "/tokenizer_info")[1])["chat_template"])
        for fields, text in (
            ({}, "<user>hisweet"),
            ({"chat_template_kwargs": {"flavour": "sour"}}, "<user>hisour"),
            ({"chat_template": "{{ messages[0].content }}!"}, "hi!"),
        ):
            with self.subTest(text):
                status, found = server.post("/tokenize", {"messages": self.TURNS, **fields})
                self.assertEqual((status, server.post("/detokenize", {"tokens": found["tokens"]})[1]["prompt"]), (200, text))
        status, told = server.post("/v1/chat/completions", {"messages": self.TURNS, "chat_template": "{{ oops"})
        self.assertEqual((status, told["error"]["type"]), (400, "BadRequestError"))
        status, answer = server.post("/v1/chat/completions", {"messages": self.TURNS, "max_tokens": 1})
        self.assertEqual(answer["choices"][0]["message"]["role"], "model")

    def test_what_reaches_the_template(self):
        server = self.start("--trust-request-chat-template", "--enable-auto-tool-choice", "--tool-call-parser", "hermes")

        def prompt(template, **fields):
            """The prompt, which must be the same for /tokenize and for the chat itself."""
            body = {"chat_template": template, **fields}
            status, found = server.post("/tokenize", body)
            self.assertEqual(status, 200, found)
            status, answer = server.post("/v1/chat/completions", {**body, "max_tokens": 1})
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["usage"]["prompt_tokens"], found["count"])
            return server.post("/detokenize", {"tokens": found["tokens"]})[1]["prompt"]

        tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
        self.assertEqual(prompt("{% for t in tools %}TOOL {{ t.function.name }} {% endfor %}{{ messages[0].content }}",
                                messages=self.TURNS, tools=tools), "TOOL f hi")
        call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
        called = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "", "tool_calls": [call]},
                  {"role": "tool", "tool_call_id": "c1", "content": "7"}]
        self.assertEqual(prompt("{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name + ' ' + "
                                "c.function.arguments }}{% endfor %}{{ m.content }};{% endfor %}", messages=called),
                         'q;f {"a": 1};7;')
        thinks = ("{% for m in messages %}[{{ m.role }}{% if m.reasoning_content %} thought {{ m.reasoning_content }}"
                  "{% endif %}] {{ m.content }}{% endfor %}")
        for answer in ({"reasoning": "why", "content": "b"}, {"reasoning_content": "why", "content": "b"},
                       {"thinking": "why", "content": "b"},
                       {"content": [{"type": "thinking", "thinking": "why"}, {"type": "text", "text": "b"}]}):
            turns = [*self.TURNS, {"role": "assistant", **answer}]
            self.assertEqual(prompt(thinks, messages=turns), "[user] hi[assistant thought why] b")

    def test_contents_as_lists(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
            file.write("{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
                       "{% for p in m.content %}({{ p.text }}){% endfor %}{% endif %}{% endfor %}")
            file.flush()
            for option, text in (("auto", "a(b)(c)"), ("string", "ab\nc"), ("openai", "(a)(b)(c)")):
                server = self.start("--chat-template", file.name, "--chat-template-content-format", option)
                _, found = server.post("/tokenize", {"messages": [
                    {"role": "user", "content": "a"},
                    {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]}]})
                self.assertEqual(server.post("/detokenize", {"tokens": found["tokens"]})[1]["prompt"], text)

    def test_what_absent_fields_mean(self):
        server = self.start("--override-generation-config", '{"temperature": 0}', "--max-logprobs", "30",
                            "--enable-force-include-usage", "--return-tokens-as-token-ids")
        ask = {"prompt": "Once upon a time", "max_tokens": 8, "logprobs": 30}
        answers = [server.post("/v1/completions", ask)[1]["choices"][0] for _ in range(3)]
        self.assertEqual(len({answer["text"] for answer in answers}), 1, "sampled, though told not to")
        self.assertTrue(all(token.startswith("token_id:") for token in answers[0]["logprobs"]["tokens"]))
        self.assertGreaterEqual(len(answers[0]["logprobs"]["top_logprobs"][0]), 30)
        self.assertEqual(server.post("/v1/completions", {**ask, "logprobs": 31})[0], 400)
        streamed = events(server.request("POST", "/v1/completions", {**ask, "stream": True})[1])
        self.assertEqual(streamed[-1]["usage"]["completion_tokens"], 8)

    def test_a_cache_of_few_blocks_preempts_and_answers_the_same(self):
        ask = {"prompt": "Once upon a time", "max_tokens": 100, "temperature": 0, "ignore_eos": True, "n": 4}
        wide, narrow = self.start(), self.start("--num-gpu-blocks-override", "12", "--max-model-len", "auto", "--long-prefill-token-threshold", "3")
        texts = [{choice["text"] for choice in server.post("/v1/completions", ask)[1]["choices"]} for server in (wide, narrow)]
        self.assertEqual(texts[0], texts[1])
        self.assertGreater(narrow.metric("vllm:num_preemptions_total"), 0)


class Life(unittest.TestCase):
    def start(self, *options, **environment):
        server = Server(*options, **environment)
        self.addCleanup(server.stop, signal.SIGKILL)
        return server

    def test_request_ids_on_every_answer(self):
        server = self.start("--enable-request-id-headers", "--api-key", "k")
        key = {"Authorization": "Bearer k"}
        seen = set()
        for method, path, body, headers, status in (
            ("GET", "/health", None, {}, 200),
            ("GET", "/metrics", None, {}, 200),
            ("GET", "/nothing", None, {}, 404),
            ("GET", "/v1/completions", None, {}, 405),
            ("POST", "/v1/completions", stories(), {}, 401),
            ("POST", "/v1/completions", "{", key, 400),
            ("POST", "/v1/completions", stories(), key, 200),
            ("POST", "/v1/completions", stories(stream=True), key, 200),
            ("POST", "/v1/completions", stories(), {**key, "Content-Type": "text/plain"}, 415),
        ):
            with self.subTest(method=method, path=path, status=status):
                response, _ = server.request(method, path, body, {**headers, "X-Request-Id": "mine-1"})
                self.assertEqual(response.status, status)
                self.assertEqual(response.headers.get_all("X-Request-Id"), ["mine-1"])
                response, _ = server.request(method, path, body, {**headers, "X-Request-Id": "x" * 200})
                new = response.headers.get_all("X-Request-Id")
                self.assertEqual(len(new), 1)
                self.assertRegex(new[0], "^[0-9a-f]{32}$")
                seen.add(new[0])
        self.assertEqual(len(seen), 9)
        # One connection, two requests; the second has no Host.
        text = server.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: first\r\n\r\n"
                          b"GET /health HTTP/1.1\r\nX-Request-Id: second\r\n\r\n").decode()
        self.assertEqual(re.findall(r"^HTTP/1.1 (\d+)", text, re.M), ["200", "400"])
        self.assertEqual(re.findall(r"X-Request-Id: (\w+)", text), ["first", "second"])

    def test_request_ids_on_generations_alone(self):
        server = self.start()
        response, _ = server.request("GET", "/health", headers={"X-Request-Id": "mine"})
        self.assertIsNone(response.getheader("X-Request-Id"))
        response, _ = server.request("POST", "/v1/completions", stories(), {"X-Request-Id": "mine"})
        self.assertEqual(response.headers.get_all("X-Request-Id"), ["mine"])

    def test_keys(self):
        server = self.start("--api-key", "one", "--api-key", "two", VLLM_API_KEY="three")
        for key, expected in (("one", 200), ("two", 200), ("three", 200), ("on", 401), ("onee", 401), ("", 401)):
            response, text = server.request("GET", "/v1/models", headers={"Authorization": "Bearer " + key})
            self.assertEqual(response.status, expected, key)
        self.assertEqual(json.loads(text)["error"]["type"], "AuthenticationError")
        self.assertEqual(response.headers["WWW-Authenticate"], "Bearer")
        for path, expected in (("/health", 200), ("/metrics", 200), ("/v1/models", 401)):
            self.assertEqual(server.request("GET", path)[0].status, expected, path)
        self.assertEqual(server.post("/tokenize", {"prompt": "a"})[0], 401)
        self.assertEqual(server.post("/v1/completions", stories())[0], 401)

    def test_a_public_address_needs_a_key(self):
        run = subprocess.run([BINARY, "serve", MODEL, "--host", "0.0.0.0"], capture_output=True, text=True,
                             check=False, env={k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")})
        self.assertEqual(run.returncode, 2)
        self.assertIn("--api-key", run.stderr)

    def test_a_full_server_says_so(self):
        server = self.start("--max-num-seqs", "2", "--max-waiting-requests", "2")
        long = stories(max_tokens=900, ignore_eos=True, temperature=1, n=4, stream=True)
        connection = server.connect()
        self.addCleanup(connection.close)
        connection.request("POST", "/v1/completions", json.dumps(long), {"Content-Type": "application/json"})
        connection.getresponse()
        response, text = server.request("POST", "/v1/completions", stories())
        self.assertEqual(response.status, 429, text)
        self.assertEqual(json.loads(text)["error"]["type"], "RateLimitError")
        self.assertTrue(int(response.headers["Retry-After"]) > 0)
        connection.close()
        self.assertEqual(server.post("/v1/completions", stories(n=5, temperature=1))[0], 400)

    def test_a_full_server_of_vllms_flag_sends_clients_elsewhere(self):
        server = self.start("--max-num-queued-reqs", "4")
        self.assertEqual(server.post("/v1/completions", stories(n=4, temperature=1))[0], 200)
        response, text = server.request("POST", "/v1/completions", stories(n=5, temperature=1))
        self.assertEqual(response.status, 503, text)
        self.assertIn(b"--max-num-queued-reqs is 4", text)
        self.assertTrue(int(response.headers["Retry-After"]) > 0)

    def test_sigterm_lets_running_requests_finish(self):
        server = self.start("--shutdown-timeout", str(TIMEOUT))
        connection = server.connect()
        self.addCleanup(connection.close)
        fields = stories(max_tokens=900, ignore_eos=True, temperature=1, n=16)
        connection.request("POST", "/v1/completions", json.dumps(fields), {"Content-Type": "application/json"})
        server.wait_until(lambda: server.metric("vllm:num_requests_running") > 0)
        probe = server.connect()
        self.addCleanup(probe.close)
        probe.connect()
        server.process.send_signal(signal.SIGTERM)
        server.wait_until(lambda: "Shutting down" in server.text())
        probe.request("GET", "/health")
        try:
            self.assertEqual(probe.getresponse().status, 503)
        except (ConnectionError, http.client.HTTPException):
            server.wait_until(lambda: "Shutting down; 16 requests" in server.text())  # it was quicker than we are
        response = connection.getresponse()
        self.assertEqual(response.status, 200)
        choices = json.loads(response.read())["choices"]
        self.assertEqual([choice["finish_reason"] for choice in choices], ["length"] * 16)
        self.assertEqual(server.process.wait(TIMEOUT), 0)

    def test_sigterm_ends_what_takes_too_long(self):
        server = self.start("--shutdown-timeout", "0")
        connection = server.connect()
        self.addCleanup(connection.close)
        fields = stories(max_tokens=900, ignore_eos=True, temperature=1, n=16, stream=True)
        connection.request("POST", "/v1/completions", json.dumps(fields), {"Content-Type": "application/json"})
        response = connection.getresponse()
        server.process.send_signal(signal.SIGTERM)
        text = response.read()
        self.assertEqual(events(text)[-1]["error"]["code"], 503)
        self.assertEqual(server.process.wait(TIMEOUT), 0)

    def test_sigint_of_an_idle_server(self):
        server = self.start()
        idle = server.connect()
        idle.connect()
        self.addCleanup(idle.close)
        self.assertEqual(server.stop(signal.SIGINT), 0)
        self.assertIn("Application shutdown complete.", server.text())


if __name__ == "__main__":
    BINARY, MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
