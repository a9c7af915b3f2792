#!/usr/bin/env python3
"""`reprise serve` with models that make vectors: /v1/embeddings, /pooling, /score and /rerank.

    pooling_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER

The models are those of tests/goldens/pooling, with a tokenizer of 96 letters. Uses only Python's standard library.
"""

import base64
import json
import math
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import architectures_test
import serve_test

SOURCE = None
SIZE = 32  # of a vector


def length(vector):
    return math.sqrt(sum(value * value for value in vector))


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / length(a) / length(b)


class Pooling(unittest.TestCase):
    def copy_of(self, name):
        folder = tempfile.TemporaryDirectory(prefix="reprise_pooling_")
        self.addCleanup(folder.cleanup)
        golden = SOURCE / "tests" / "goldens" / "pooling" / name
        model = Path(folder.name) / "model"
        shutil.copytree(golden, model)
        architectures_test.write_tokenizer(model)
        return model, json.loads((golden / "golden.json").read_text())["cases"]

    def start(self, model, *options):
        serve_test.MODEL = str(model)
        server = serve_test.Server("--dtype", "float32", "--disable-compile-cache", *options)
        self.addCleanup(server.stop, 9)
        return server

    def embed(self, server, path="/v1/embeddings", **body):
        status, answer = server.post(path, body)
        self.assertEqual(status, 200, answer)
        return answer

    def vectors(self, server, texts, **body):
        answer = self.embed(server, input=texts, **body)
        self.assertEqual([item["index"] for item in answer["data"]], list(range(len(texts))))
        return [item["embedding"] for item in answer["data"]]

    def assert_near(self, got, want, bound=1e-5):
        self.assertEqual(len(got), len(want))
        self.assertLessEqual(max(abs(a - b) for a, b in zip(got, want, strict=True)), bound)

    def test_vectors_are_those_of_transformers_with_graphs_and_without(self):
        names = sorted(path.name for path in (SOURCE / "tests" / "goldens" / "pooling").iterdir())
        self.assertGreater(len(names), 10)
        # Three kinds in all configurations, the others in two.
        for name in names:
            model, cases = self.copy_of(name)
            texts = [case["text"] for case in cases]
            whole = None
            setups = [[], ["-O0"]]
            if name in ("bert-mean", "qwen3-last", "gemma3-dense"):
                setups += [["--enforce-eager"], ["--max-num-seqs", "1"], ["--async-scheduling"]]
            for options in setups:
                with self.subTest(name, options=options):
                    server = self.start(model, *options)
                    vectors = self.vectors(server, texts)
                    for vector, case in zip(vectors, cases, strict=True):
                        self.assert_near(vector, case["vector"])
                    # The bits of a vector do not depend on graphs, levels, or the other texts of its batch.
                    whole = whole or vectors
                    self.assertEqual(vectors, whole)
                    self.assertEqual([self.vectors(server, [text])[0] for text in texts], whole)
                    if not options:
                        self.assertIn("PIECEWISE", server.text())
                        self.assertGreater(
                            server.metric("reprise:cudagraph_dispatch_total", 'runtime_mode="PIECEWISE"'), 0)
                    self.assertEqual(server.metric("reprise:failed_steps_total"), 0)
                    server.stop()

    def test_a_decoder_computes_long_texts_in_chunks_and_finds_cached_prefixes(self):
        model, cases = self.copy_of("qwen3-last")
        server = self.start(model, "--max-num-batched-tokens", "8", "--max-num-seqs", "4",
                            "--enable-prompt-tokens-details")
        for expected in (0, 32):
            answer = self.embed(server, input=cases[3]["text"])
            self.assert_near(answer["data"][0]["embedding"], cases[3]["vector"])
            self.assertEqual(answer["usage"]["prompt_tokens_details"]["cached_tokens"], expected)

    def test_an_encoder_computes_a_text_in_one_step(self):
        model, cases = self.copy_of("bert-mean")
        done = subprocess.run(
            [serve_test.BINARY, "serve", model, "--port", "0", "--max-num-batched-tokens", "32", "--max-num-seqs", "4"],
            capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 2)
        self.assertIn("max_num_batched_tokens (32)", done.stderr)
        server = self.start(model)
        status, answer = server.post("/v1/embeddings", {"input": [1] * 65})
        self.assertEqual(status, 400, answer)
        self.assertIn("maximum context length is 64 tokens", answer["error"]["message"])
        self.assertEqual(len(self.vectors(server, [[1] * 64])), 1)
        cut = self.embed(server, input=cases[1]["text"] + [5] * 100, truncate_prompt_tokens=len(cases[1]["text"]))
        self.assert_near(cut["data"][0]["embedding"], cases[1]["vector"])

    def test_the_answer_has_openais_form(self):
        model, cases = self.copy_of("bert-mean")
        server = self.start(model)
        answer = self.embed(server, input=["abc", "d"], model=serve_test.NAME)
        self.assertEqual(answer["object"], "list")
        self.assertEqual(answer["model"], serve_test.NAME)
        self.assertTrue(answer["id"].startswith("embd-"))
        self.assertEqual([item["object"] for item in answer["data"]], ["embedding", "embedding"])
        self.assertEqual(answer["usage"] | {"prompt_tokens_details": None},
                         {"prompt_tokens": 4, "total_tokens": 4, "completion_tokens": 0, "prompt_tokens_details": None})
        self.assertAlmostEqual(length(answer["data"][0]["embedding"]), 1, places=6)
        coded = self.embed(server, input=["abc", "d"], encoding_format="base64")
        for item, plain in zip(coded["data"], answer["data"], strict=True):
            values = struct.unpack(f"<{SIZE}f", base64.b64decode(item["embedding"], validate=True))
            self.assert_near(values, plain["embedding"], 1e-7)
        pooled = self.embed(server, "/pooling", input="abc")
        self.assertEqual(pooled["data"][0]["object"], "pooling")
        self.assertEqual(pooled["data"][0]["data"], answer["data"][0]["embedding"])
        self.assertEqual(self.embed(server, "/pooling", input="abc", task="embed")["data"], pooled["data"])
        status, refused = server.post("/pooling", {"input": "abc", "task": "classify"})
        self.assertEqual((status, refused["error"]["param"]), (400, "task"), refused)
        raw = self.embed(server, input="abc", normalize=False)["data"][0]["embedding"]
        self.assertNotAlmostEqual(length(raw), 1, places=2)
        self.assert_near([value / length(raw) for value in raw], answer["data"][0]["embedding"], 1e-6)

    def test_ollamas_routes_have_the_vectors_of_openais(self):
        model, _ = self.copy_of("bert-mean")
        server = self.start(model)
        texts = ["abc", "d"]
        want = self.embed(server, input=texts)
        answer = self.embed(server, "/api/embed", model=serve_test.NAME + ":latest", input=texts)
        self.assertEqual(answer["embeddings"], [item["embedding"] for item in want["data"]])
        self.assertEqual((answer["model"], answer["prompt_eval_count"]), (serve_test.NAME, want["usage"]["prompt_tokens"]))
        self.assertGreater(answer["total_duration"], 0)
        one = self.embed(server, "/api/embed", model=serve_test.NAME, input="abc")
        self.assertEqual(one["embeddings"], answer["embeddings"][:1])
        old = self.embed(server, "/api/embeddings", model=serve_test.NAME, prompt="abc")
        self.assertEqual(old, {"embedding": self.embed(server, input="abc", normalize=False)["data"][0]["embedding"]})
        # A text that is too long is cut to the context of 64 tokens, unless the request forbids it.
        long = {"model": serve_test.NAME, "input": "a" * 100}
        self.assertEqual(self.embed(server, "/api/embed", **long)["prompt_eval_count"], 64)
        status, answer = server.post("/api/embed", {**long, "truncate": False})
        self.assertEqual(status, 400)
        self.assertIn("maximum context length is 64 tokens", answer["error"])

    def test_a_file_of_requests_has_the_answers_of_the_server(self):
        model, _ = self.copy_of("bert-cls")
        bodies = {"/v1/embeddings": {"input": "abc"}, "/score": {"text_1": "abc", "text_2": ["ab", "d"]},
                  "/rerank": {"query": "abc", "documents": ["ab", "d"]}}
        source, target = model.parent / "in.jsonl", model.parent / "out.jsonl"
        source.write_text("\n".join(json.dumps({"custom_id": url, "method": "POST", "url": url, "body": body})
                                    for url, body in bodies.items()))
        subprocess.run([serve_test.BINARY, "run-batch", model, "-i", source, "-o", target, "--dtype", "float32"],
                       capture_output=True, timeout=300, check=True)
        server = self.start(model)
        for row in map(json.loads, target.read_text().splitlines()):
            expected = self.embed(server, row["custom_id"], **bodies[row["custom_id"]])
            found = row["response"]["body"]
            for name in ("id", "created", "model"):
                expected.pop(name, None), found.pop(name, None)
            self.assertEqual(found, expected)

    def test_scores_and_ranks_are_cosines(self):
        model, _ = self.copy_of("bert-cls")
        server = self.start(model)
        query, *documents = self.vectors(server, ["query", "one", "two", "three"])
        want = [cosine(query, document) for document in documents]
        scores = self.embed(server, "/score", text_1="query", text_2=["one", "two", "three"])
        self.assert_near([item["score"] for item in scores["data"]], want, 1e-6)
        pairs = self.embed(server, "/v1/score", text_1=["one", "two"], text_2=["one", "three"])
        self.assertAlmostEqual(pairs["data"][0]["score"], 1, places=6)
        ranks = self.embed(server, "/v2/rerank", query="query", documents=["one", "two", "three"], top_n=2)["results"]
        order = sorted(range(3), key=lambda i: -want[i])[:2]
        self.assertEqual([item["index"] for item in ranks], order)
        self.assertEqual(ranks[0]["document"]["text"], ["one", "two", "three"][order[0]])
        self.assertAlmostEqual(ranks[0]["relevance_score"], want[order[0]], places=6)

    def test_bad_requests_are_refused_by_name(self):
        model, _ = self.copy_of("bert-mean")
        server = self.start(model)
        for path, body, param in (
            ("/v1/embeddings", {"input": [[10**6]]}, "input"),
                ("/v1/embeddings", {}, "input"),
                ("/v1/embeddings", {"input": []}, "input"),
                ("/v1/embeddings", {"input": 7}, "input"),
                ("/v1/embeddings", {"input": ["a", 7]}, "input"),
                ("/v1/embeddings", {"input": [96]}, "input"),
                ("/v1/embeddings", {"input": ["a"] * 2049}, "input"),
                ("/v1/embeddings", {"input": "a", "encoding_format": "hex"}, "encoding_format"),
                ("/v1/embeddings", {"input": "a", "dimensions": 8}, "dimensions"),
                ("/v1/embeddings", {"input": "a", "truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
                ("/score", {"text_1": "a"}, "text_2"),
                ("/score", {"text_1": ["a", "b"], "text_2": "c"}, "text_1"),
                ("/rerank", {"query": "a", "documents": []}, "documents"),
                ("/rerank", {"query": "a", "documents": ["b"], "top_n": -1}, "top_n")):
            with self.subTest(path, body=str(body)[:60]):
                status, answer = server.post(path, body)
                self.assertEqual(status, 400, answer)
                if param:
                    self.assertEqual(answer["error"]["param"], param, answer)
        status, answer = server.post("/v1/embeddings", {"input": "a", "model": "other"})
        self.assertEqual(status, 404, answer)
        self.assertEqual(len(self.vectors(server, ["still there"])), 1)

    def test_a_model_is_refused_what_it_cannot_do(self):
        model, _ = self.copy_of("bert-mean")
        server = self.start(model)
        status, answer = server.post("/v1/completions", {"prompt": "a"})
        self.assertEqual((status, answer["error"]["message"]), (400, "The model does not support Completions API"))
        done = subprocess.run([serve_test.BINARY, "generate", model, "--prompt", "a"], capture_output=True, text=True,
                              timeout=300)
        self.assertEqual(done.returncode, 2)
        self.assertIn("/v1/embeddings", done.stderr)
        done = subprocess.run([serve_test.BINARY, "serve", model, "--runner", "generate"], capture_output=True, text=True,
                              timeout=300)
        self.assertEqual(done.returncode, 2)
        self.assertIn("BertModel is an encoder", done.stderr)
        decoder, _ = self.copy_of("qwen3-last")
        server = self.start(decoder, "--runner", "generate")
        status, answer = server.post("/v1/embeddings", {"input": "a"})
        self.assertEqual((status, answer["error"]["message"]), (400, "The model does not support Embeddings API"))
        pooling = decoder / "1_Pooling" / "config.json"
        pooling.write_text(json.dumps({"pooling_mode_max_tokens": True}))
        done = subprocess.run([serve_test.BINARY, "serve", decoder], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 2)
        self.assertIn("pooling_mode_max_tokens: is not supported", done.stderr)


if __name__ == "__main__":
    serve_test.BINARY = architectures_test.BINARY = sys.argv[1]
    SOURCE = Path(sys.argv[3])
    unittest.main(argv=sys.argv[:1])
