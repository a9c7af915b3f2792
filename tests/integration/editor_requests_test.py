#!/usr/bin/env python3
"""Requests in the form that editors send them. The programs are not at hand here: the forms come from their sources.

    editor_requests_test.py REPRISE_BINARY MODEL_FOLDER

Continue (core/llm/llms/OpenAI.ts, Vllm.ts and Ollama.ts, core/autocomplete) has an OpenAI-type and an ollama-type connection. A
field that the server refuses, or that has no effect, fails the test. Uses only Python's
standard library.
"""

import json
import sys
import unittest

import serve_test
from serve_test import NAME, Server, events

# What Continue puts into each request, and the headers of its OpenAI-type connection.
HEADERS = {"Authorization": "Bearer none", "api-key": "none", "x-api-key": "none"}
SAMPLING = {"temperature": 0.01, "top_p": 0.9, "frequency_penalty": 0.1, "presence_penalty": 0.1, "max_tokens": 12}
GAP = "<fim_prefix>def add(a, b):\n    <fim_suffix>\n\nprint(add(1, 2))\n<fim_middle>"
# Continue sends the marks of the model's form of gaps, ends that fit any text, and what its user adds.
STOPS = ["<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>", "<|endoftext|>", "</fim_middle>", "</code>", "t.", "\nt",
         "\n\n", "\r\n\r\n", "/src/", "#- coding: utf-8", "```", "\ndef", "\nclass"]
EDIT = {"type": "function", "function": {"name": "edit_file", "description": "Edit a file", "strict": False, "parameters": {
    "type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}, "required": ["path", "text"]}}}


class Editors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
        cls.vectors = Server("--runner", "pooling")

    @classmethod
    def tearDownClass(cls):
        for server in (cls.server, cls.vectors):
            code = server.stop()
            assert code == 0, (code, server.text())

    def ask(self, path, body, unused=None, server=None):
        response, text = (server or self.server).request("POST", path, {"model": NAME, **body}, HEADERS)
        self.assertEqual(response.status, 200, text)
        self.assertEqual(response.headers.get("X-Unused-Fields"), unused, text)
        return text

    def test_a_streamed_chat_with_a_result_of_a_tool(self):
        # Continue writes a space where a message has no text.
        call = {"id": "a1", "type": "function", "function": {"name": "edit_file", "arguments": '{"path": "a.py", "text": "x"}'}}
        messages = [{"role": "system", "content": "You are in an editor."}, {"role": "user", "content": [{"type": "text", "text": "Edit a.py."}]},
                    {"role": "assistant", "content": " ", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "a1", "content": "done"},
                    {"role": "user", "content": "Hello!"}]
        chunks = events(self.ask("/v1/chat/completions", {
            "messages": messages, "stream": True, "stream_options": {"include_usage": True}, "tools": [EDIT],
            "parallel_tool_calls": False, "stop": STOPS, **SAMPLING}))
        self.assertGreater(chunks[-1]["usage"]["completion_tokens"], 0)

    def test_a_completion_in_a_gap(self):
        chunks = events(self.ask("/v1/completions", {"prompt": GAP, "stream": True, "stop": STOPS, **SAMPLING}))
        self.assertIn(chunks[-1]["choices"][0]["finish_reason"], ("stop", "length"))

    def test_a_completion_in_a_gap_over_ollama(self):
        options = {"temperature": 0.01, "top_p": 0.9, "num_predict": 12, "stop": STOPS, "num_ctx": 2048, "mirostat": 0, "num_thread": 4}
        lines = self.ask("/api/generate", {"prompt": GAP, "raw": True, "stream": True, "keep_alive": 1800, "options": options},
                         "keep_alive, options.num_ctx, options.mirostat, options.num_thread")
        parts = [json.loads(line) for line in lines.splitlines()]
        self.assertEqual([part["done"] for part in parts], [False] * (len(parts) - 1) + [True])

    def test_the_context_of_a_model(self):
        model, = json.loads(self.server.request("GET", "/v1/models")[1])["data"]
        self.assertGreater(model["max_model_len"], 0)
        shown = json.loads(self.ask("/api/show", {"model": None, "name": NAME}))
        self.assertGreater(shown["model_info"]["reprise.context_length"], 0)

    def test_vectors_and_ranks_of_pieces_of_files(self):
        pieces = ["def add(a, b):", "class Owl:", "print(7)"]
        data = json.loads(self.ask("/v1/embeddings", {"input": pieces}, server=self.vectors))["data"]
        self.assertEqual([one["index"] for one in data], [0, 1, 2])
        self.assertEqual(len({len(one["embedding"]) for one in data}), 1)
        embeddings = json.loads(self.ask("/api/embed", {"input": pieces}, server=self.vectors))["embeddings"]
        self.assertEqual(len(embeddings), 3)
        results = json.loads(self.ask("/v1/rerank", {"query": "class Owl:", "documents": pieces}, server=self.vectors))["results"]
        self.assertEqual({one["index"] for one in results}, {0, 1, 2})
        self.assertEqual(max(results, key=lambda one: one["relevance_score"])["index"], 1)


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
