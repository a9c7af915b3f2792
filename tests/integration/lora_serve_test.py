#!/usr/bin/env python3
"""Adapters of a server: names, batches, the routes that load and unload them, errors and metrics.

    lora_serve_test.py REPRISE_BINARY MODEL_FOLDER

Uses only Python's standard library.
"""

import json
import random
import struct
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import serve_test
from serve_test import stories

HIDDEN, INTERMEDIATE, Q, KV, LAYERS = 128, 384, 128, 64, 6  # of the bundled model
SHAPES = {"self_attn.q_proj": (Q, HIDDEN), "self_attn.v_proj": (KV, HIDDEN), "mlp.down_proj": (HIDDEN, INTERMEDIATE)}


def write_adapter(folder, seed, rank=4, strength=0.3, **config):
    """A random PEFT adapter of the bundled model."""
    folder.mkdir(exist_ok=True)
    settings = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "bias": "none"} | config
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    rng, header, data = random.Random(seed), {}, b""
    for layer in range(LAYERS):
        for module, (outputs, inputs) in SHAPES.items():
            for matrix, shape in (("lora_A", (rank, inputs)), ("lora_B", (outputs, rank))):
                count = shape[0] * shape[1]
                values = struct.pack(f"<{count}f", *(rng.gauss(0, strength) for _ in range(count)))
                name = f"base_model.model.model.layers.{layer}.{module}.{matrix}.weight"
                header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
                data += values
    text = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return folder


class Lora(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        folder = Path(cls.temporary.name)
        cls.adapters = {name: write_adapter(folder / name, seed) for seed, name in enumerate(("fox", "owl", "bear"))}

    def start(self, *options, **environment):
        modules = [f"{name}={self.adapters[name]}" for name in ("fox", "owl")]
        server = serve_test.Server("--enable-lora", "--lora-modules", *modules, *options, **environment)
        self.addCleanup(server.stop, 9)
        return server

    def text(self, server, model, expected=200, **fields):
        status, answer = server.post("/v1/completions", stories(**{"model": model, "max_tokens": 12, **fields}))
        self.assertEqual(status, expected, answer)
        return answer["choices"][0]["text"] if status == 200 else answer["error"]["message"]

    def texts_together(self, server, asked):
        """The answers to requests that run at the same time; asked: (model, fields of the body)."""
        texts = [None] * len(asked)

        def ask(index, name, fields):
            texts[index] = self.text(server, name, **fields)

        threads = [threading.Thread(target=ask, args=(index, *pair)) for index, pair in enumerate(asked)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return texts

    def models(self, server):
        return json.loads(server.request("GET", "/v1/models")[1])["data"]

    def names(self, server):
        return [model["id"] for model in self.models(server)]

    def change(self, server, route, expected=200, **body):
        response, text = server.request("POST", f"/v1/{route}_lora_adapter", json.dumps(body))
        self.assertEqual(response.status, expected, text)
        return text.decode()

    def metric(self, server, name):
        text = server.request("GET", "/metrics")[1].decode()
        return [line for line in text.splitlines() if line.startswith(name)]

    def test_adapters_are_models_of_their_own(self):
        server = self.start("--max-loras", "2")
        base, fox, owl = self.models(server)
        self.assertEqual((fox["id"], owl["id"]), ("fox", "owl"))
        self.assertEqual(fox["parent"], base["id"])
        self.assertEqual(fox["root"], str(self.adapters["fox"]))
        self.assertIsNone(base["parent"])
        one = json.loads(server.request("GET", "/v1/models/owl")[1])
        self.assertEqual(one["id"], "owl")
        texts = [self.text(server, name) for name in (base["id"], "fox", "owl")]
        self.assertEqual(len(set(texts)), 3, texts)
        self.assertIn("does not exist", self.text(server, "bear", expected=404))
        self.assertEqual(server.request("GET", "/v1/models/bear")[0].status, 404)

    def test_requests_of_different_adapters_get_the_answers_that_they_get_alone(self):
        server = self.start("--max-loras", "2")
        names = [self.names(server)[0], "fox", "owl"] * 4
        alone = {name: self.text(server, name) for name in set(names)}
        together = self.texts_together(server, [(name, {}) for name in names])
        self.assertEqual(together, [alone[name] for name in names])

    def test_drafts_change_no_answer_of_an_adapter(self):
        """Requests with fewer drafts are padded, and padding tokens belong to the adapter of their request too."""
        drafts = json.dumps({"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1})
        prompts = ["the fox and the owl and the fox and the", "one two one two one two one"]
        servers = [self.start("--max-loras", "2", *more) for more in ((), ("--speculative-config", drafts))]
        answers = []
        for server in servers:
            asked = [(name, {"prompt": prompt}) for prompt in prompts for name in (self.names(server)[0], "fox", "owl")]
            answers.append(self.texts_together(server, asked))
        self.assertEqual(answers[1], answers[0])
        counted = [line for line in self.metric(servers[1], "vllm:spec_decode_num_draft_tokens_total") if "created" not in line]
        self.assertGreater(float(counted[0].rsplit(" ", 1)[1]), 0, counted)

    def test_an_adapter_is_added_to_packed_weights_too(self):
        plain, packed = self.start("--max-loras", "2"), self.start("--max-loras", "2", "--quantization", "q8_0")

        def logprobs(server, model):
            prompt = "All the animals of the forest came to the river, because it had not rained for a long time."
            body = stories(model=model, prompt=prompt, echo=True, logprobs=0, max_tokens=1)
            status, answer = server.post("/v1/completions", body)
            self.assertEqual(status, 200, answer)
            return answer["choices"][0]["logprobs"]["token_logprobs"][1:-1]

        def distance(left, right):
            return sum(abs(a - b) for a, b in zip(left, right, strict=True)) / len(left)

        fox = logprobs(plain, "fox")
        effect = distance(fox, logprobs(plain, self.names(plain)[0]))
        rounding = distance(fox, logprobs(packed, "fox"))
        self.assertGreater(effect, 1)
        self.assertLess(rounding, effect / 5)

    def test_more_adapters_than_slots_take_turns_without_a_new_capture(self):
        server = self.start()  # one slot, one adapter in host memory
        graphs = self.metric(server, "reprise:cudagraph_captured")
        expected = {name: self.text(server, name) for name in ("fox", "owl")}
        for name in ("owl", "fox", "fox", "owl"):
            self.assertEqual(self.text(server, name), expected[name])
        self.assertEqual(self.metric(server, "reprise:cudagraph_captured"), graphs)

    def test_prefixes_are_cached_for_each_adapter(self):
        server = self.start("--max-loras", "2", "--enable-prompt-tokens-details")
        prompt = "All the animals of the forest came to the river. " * 8

        def cached(name):
            status, answer = server.post("/v1/completions", stories(model=name, prompt=prompt, max_tokens=4))
            self.assertEqual(status, 200, answer)
            return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

        self.assertEqual([cached("fox"), cached("owl"), cached(self.names(server)[0])], [0, 0, 0])
        self.assertGreater(cached("fox"), 0)
        self.assertGreater(cached("owl"), 0)

    def test_routes_load_and_unload(self):
        server = self.start("--max-loras", "2", VLLM_ALLOW_RUNTIME_LORA_UPDATING="1")
        bear = str(self.adapters["bear"])
        said = self.change(server, "load", lora_name="bear", lora_path=bear)
        self.assertEqual(said, "Success: LoRA adapter 'bear' added successfully.")
        self.assertIn("bear", self.names(server))
        first = self.text(server, "bear")
        self.assertIn("already been loaded", self.change(server, "load", 400, lora_name="bear", lora_path=bear))
        self.change(server, "load", lora_name="bear", lora_path=str(self.adapters["owl"]), load_inplace=True)
        self.assertEqual(self.text(server, "bear"), self.text(server, "owl"))
        said = self.change(server, "unload", lora_name="bear")
        self.assertEqual(said, "Success: LoRA adapter 'bear' removed successfully.")
        self.text(server, "bear", expected=404)
        self.assertIn("cannot be found", self.change(server, "unload", 404, lora_name="bear"))
        self.change(server, "load", lora_name="bear", lora_path=bear)
        self.assertEqual(self.text(server, "bear"), first)

    def test_routes_say_what_is_wrong(self):
        server = self.start(VLLM_ALLOW_RUNTIME_LORA_UPDATING="true")
        folder = Path(self.temporary.name)
        self.assertIn("lora_path", self.change(server, "load", 400, lora_name="x"))
        self.assertIn("lora_name", self.change(server, "unload", 400))
        self.change(server, "load", 404, lora_name="x", lora_path=str(folder / "nowhere"))
        wide = write_adapter(folder / "wide", 9, rank=32)
        self.assertIn("--max-lora-rank 32", self.change(server, "load", 400, lora_name="x", lora_path=str(wide)))
        dora = write_adapter(folder / "dora", 9, use_dora=True)
        self.assertIn("DoRA", self.change(server, "load", 400, lora_name="x", lora_path=str(dora)))
        own = self.names(server)[0]
        self.assertIn("choose another name",
                      self.change(server, "load", 400, lora_name=own, lora_path=str(self.adapters["bear"])))
        for name, shown in (("a\nINFO forged", r"a\u{a}INFO forged"), ("\x1b[31m", r"\u{1b}[31m"), ("a\u202eb", r"a\u{202e}b"),
                            ("x" * 257, "at most 256 bytes"), ("x" * 8_000_000, "at most 256 bytes")):
            said = self.change(server, "load", 400, lora_name=name, lora_path=str(self.adapters["bear"]))
            self.assertIn(json.dumps(shown)[1:-1], said)
            self.assertLess(len(said), 1000)
        self.change(server, "load", lora_name="x" * 256, lora_path=str(self.adapters["bear"]))
        self.change(server, "unload", lora_name="x" * 256)
        self.assertNotIn("\x1b", server.log_so_far())
        self.assertEqual(self.names(server)[1:], ["fox", "owl"])
        self.assertIn("lora_name", self.change(server, "load", 400, lora_name=5, lora_path="x"))

    def test_routes_exist_only_if_the_environment_allows_them(self):
        server = self.start()
        self.change(server, "load", 404, lora_name="bear", lora_path=str(self.adapters["bear"]))
        self.change(server, "unload", 404, lora_name="fox")

    def test_metrics_name_the_adapters_of_requests(self):
        server = self.start("--max-loras", "2")
        self.assertIn('max_lora="2"', self.metric(server, "vllm:lora_requests_info")[0])
        body = stories(model="fox", max_tokens=900, ignore_eos=True)
        worker = threading.Thread(target=server.post, args=("/v1/completions", body))
        worker.start()
        seen = set()
        while worker.is_alive():
            seen.update(self.metric(server, "vllm:lora_requests_info"))
        self.assertTrue(any('running_lora_adapters="fox"' in line for line in seen), seen)

    def test_a_server_without_adapters_has_no_such_metric_or_names(self):
        server = serve_test.Server()
        self.addCleanup(server.stop, 9)
        self.assertEqual(self.metric(server, "vllm:lora_requests_info"), [])
        self.text(server, "fox", expected=404)


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
