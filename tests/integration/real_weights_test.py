#!/usr/bin/env python3
"""Published weights: Gemma 3 270M (Q4_K_M, GGUF) and all-MiniLM-L6-v2, against float32 and llama.cpp.

    real_weights_test.py REPRISE_BINARY FOLDER [--report]

FOLDER has gemma.gguf and minilm, as scripts/test_real_weights.sh makes it. It needs numpy, gguf, tokenizers and
xllamacpp. With --report it also prints the figures of benchmarks/results.

The oracle is a model in numpy that computes in float32 with the dequantised weights. Both engines round rows and
weights further, so their log-probabilities differ from it; llama.cpp shows how much is usual for this file.
"""

import json
import re
import sys
import unittest
from pathlib import Path

import numpy as np
import serve_test
from float_references import Gemma3, SentenceEncoder

FOLDER = None
REPORTS = False
TOP = 20  # number of log-probabilities compared at each position: float32's largest ones

# Measured: see benchmarks/results/2026-11-28-real-weights.md. A limit is 1.5 times the worst error seen.
WORST_ERROR = 1.4
MEAN_ERROR = 0.15
# A token that is not float32's likeliest one is no mistake if two logits are closer than their errors can be.
NEAR_TIE = WORST_ERROR
WORST_VECTOR_ERROR = {"float32": 1e-6, "bfloat16": 2e-2}

PROMPTS = {
    "English": "The capital of France is",
    "German": "Die Hauptstadt von Deutschland ist",
    "Chinese": "中国的首都是",
    "Code": "def fibonacci(n):\n    if n < 2:\n        return n\n",
    "List": "Monday, Tuesday, Wednesday,",
    "Sums": "2 + 2 = 4\n3 + 3 = 6\n4 + 4 =",
    "Blanks": "   \n\n\t  a \n",
    "Emoji": "🙂🙃👩‍👩‍👧 🇩🇪 é é",
    "Marks": "<start_of_turn>user\nHello<end_of_turn>\n<start_of_turn>model\n",
}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 40}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
                   "kind": {"enum": ["cat", "dog"]}, "toys": {"type": "array", "items": {"type": "string", "maxLength": 20},
                                                              "minItems": 1, "maxItems": 3}},
    "required": ["name", "age", "kind", "toys"], "additionalProperties": False,
}
TEMPLATE = ("{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
            "{{ m.content }}<end_of_turn>\n{% endfor %}<start_of_turn>model\n")
SENTENCES = ["A cat sits on the mat.", "Eine Katze sitzt auf der Matte.", "", "a", "Prices rose by 3.5 % in May 2024.",
             "ÀÉÎÕÜ naïve café", "机器学习", "word " * 200, "def f(x): return x ** 2"]


def is_valid(value):
    return (isinstance(value, dict) and set(value) == set(SCHEMA["properties"]) and isinstance(value["name"], str)
            and len(value["name"]) <= 40 and type(value["age"]) is int and 0 <= value["age"] <= 130
            and value["kind"] in ("cat", "dog") and isinstance(value["toys"], list) and 1 <= len(value["toys"]) <= 3
            and all(isinstance(toy, str) and len(toy) <= 20 for toy in value["toys"]))


class Errors:
    """Differences between log-probabilities of an engine and those of float32."""

    def __init__(self):
        self.worst, self.sum, self.count = 0.0, 0.0, 0

    def add(self, engine, exact):
        """`engine`: log-probabilities by token; `exact`: those of the whole vocabulary."""
        best = np.argsort(exact)[::-1][:TOP]
        errors = [abs(engine[int(token)] - float(exact[token])) for token in best if int(token) in engine]
        assert len(errors) > TOP // 2, "the engines agree on too few of the likeliest tokens"
        self.worst = max(self.worst, *errors)
        self.sum += sum(errors)
        self.count += len(errors)

    @property
    def mean(self):
        return self.sum / self.count

    def __str__(self):
        return f"worst {self.worst:.3f}, mean {self.mean:.4f} of {self.count}"


class LlamaCpp:
    def __init__(self, path):
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx, params.n_parallel, params.warmup = 2048, 1, False
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # its threads wait busily for each other
        self.server = xllamacpp.Server(params)

    def num_tokens(self, text):
        return self.server.handle_completions({"prompt": text, "max_tokens": 1})["usage"]["prompt_tokens"]

    def next_log_probabilities(self, tokens):
        answer = self.server.handle_completions({"prompt": tokens, "max_tokens": 1, "temperature": 0, "logprobs": 2 * TOP})
        entry = answer["choices"][0]["logprobs"]["content"][0]
        return {top["id"]: top["logprob"] for top in entry["top_logprobs"]}


class Case(unittest.TestCase):
    OPTIONS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = serve_test.Server(*cls.OPTIONS)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.last_words

    def post(self, path, body):
        status, answer = self.server.post(path, body)
        self.assertEqual(status, 200, answer)
        return answer


class Gemma(Case):
    """Gemma in bfloat16, which is the default."""

    LLAMA_CPP = True

    @classmethod
    def setUpClass(cls):
        serve_test.MODEL = str(FOLDER / "gemma.gguf")
        (FOLDER / "chat.jinja").write_text(TEMPLATE, encoding="utf-8")
        if not hasattr(Gemma, "exact"):
            Gemma.exact = Gemma3(FOLDER / "gemma.gguf")
        cls.OPTIONS = ("--max-logprobs", "40", "--max-model-len", "8192", "--chat-template", str(FOLDER / "chat.jinja"),
                       "--kv-cache-memory-bytes", "512M", *cls.MORE)
        super().setUpClass()

    MORE = ()

    def tokens(self, text):
        return self.post("/tokenize", {"prompt": text})["tokens"]

    def prompt_log_probabilities(self, tokens):
        """By token, for each position that has a next token."""
        answer = self.post("/v1/completions", {"prompt": tokens, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 2 * TOP})
        return [{int(token): entry["logprob"] for token, entry in position.items()}
                for position in answer["choices"][0]["prompt_logprobs"][1:]]

    def test_log_probabilities_are_near_those_of_float32(self):
        ours, theirs = Errors(), Errors()
        llama_cpp = LlamaCpp(FOLDER / "gemma.gguf") if self.LLAMA_CPP else None
        for name, prompt in PROMPTS.items():
            answer = self.post("/v1/completions", {"prompt": prompt, "max_tokens": 12, "temperature": 0, "ignore_eos": True,
                                                   "return_token_ids": True})
            tokens = self.tokens(prompt) + answer["choices"][0]["token_ids"]
            if llama_cpp:
                self.assertEqual(len(self.tokens(prompt)), llama_cpp.num_tokens(prompt))
            exact = self.exact.log_probabilities(tokens)
            of_prompt = Errors()
            for position, entry in enumerate(self.prompt_log_probabilities(tokens)):
                ours.add(entry, exact[position])
                of_prompt.add(entry, exact[position])
                if llama_cpp:
                    theirs.add(llama_cpp.next_log_probabilities(tokens[: position + 1]), exact[position])
            if REPORTS:
                print(f"{name}: {of_prompt}; {answer['choices'][0]['text']!r}")
        if REPORTS:
            print(f"{type(self).__name__}: Reprise {ours}" + (f"; llama.cpp {theirs}" if llama_cpp else ""))
        self.assertLess(ours.worst, WORST_ERROR)
        self.assertLess(ours.mean, MEAN_ERROR)
        if llama_cpp:
            self.assertLess(ours.mean, theirs.mean)

    def test_greedy_tokens_are_the_likeliest_of_float32_unless_two_are_near(self):
        num_tokens = num_other = 0
        for name, prompt in PROMPTS.items():
            with self.subTest(name):
                choice = self.post("/v1/completions", {"prompt": prompt, "max_tokens": 40, "temperature": 0, "ignore_eos": True,
                                                       "return_token_ids": True})["choices"][0]
                begun, answer = self.tokens(prompt), choice["token_ids"]
                self.assertEqual(len(answer), 40)
                exact = self.exact.log_probabilities(begun + answer, slice(len(begun) - 1, -1))
                margins = exact.max(-1) - exact[np.arange(len(answer)), answer]
                self.assertLess(margins.max(), NEAR_TIE)
                num_tokens += len(answer)
                num_other += int((margins > 0).sum())
        if REPORTS:
            print(f"{type(self).__name__}: {num_other} of {num_tokens} greedy tokens are not the likeliest of float32")

    def test_prompts_longer_than_windows_are_read_to_their_beginning(self):
        """4,500 tokens: far more than the window of 512, and than the tokens of one step."""
        lines = [f"Line {i}: the {word} has number {i * 7 % 101}.\n" for i, word in enumerate(("cat", "dog", "tree", "house") * 90)]
        tokens = self.tokens("The password is swordfish.\n" + "".join(lines) + "The password is")[:4500]
        self.assertGreater(len(tokens), 4096)
        positions = [0, 1, 510, 511, 512, 513, 1023, 2047, 2048, 2049, 4095, 4096, 4498]
        exact = self.exact.log_probabilities(tokens, positions)
        entries = self.prompt_log_probabilities(tokens)
        errors = Errors()
        for position, row in zip(positions, exact):
            errors.add(entries[position], row)
        if REPORTS:
            print(f"{type(self).__name__}: {len(tokens)} tokens: {errors}")
        self.assertLess(errors.worst, WORST_ERROR)

    def test_answers_to_one_prompt_are_those_of_separate_requests(self):
        body = {"prompt": "Once upon a time", "max_tokens": 16, "temperature": 0.8, "seed": 7, "n": 3, "logprobs": 5}
        together = self.post("/v1/completions", body)["choices"]
        again = self.post("/v1/completions", body)["choices"]
        self.assertEqual([choice["text"] for choice in together], [choice["text"] for choice in again])
        self.assertGreater(len({choice["text"] for choice in together}), 1)
        for choice in together:
            self.assertEqual("".join(choice["logprobs"]["tokens"]), choice["text"])

    def test_texts_that_are_asked_to_have_a_form_have_it(self):
        for seed in range(6):
            body = {"messages": [{"role": "user", "content": "Describe a pet as JSON."}], "max_tokens": 300, "seed": seed,
                    "temperature": 0.0 if seed == 0 else 1.0,
                    "response_format": {"type": "json_schema", "json_schema": {"name": "pet", "schema": SCHEMA}}}
            choice = self.post("/v1/chat/completions", body)["choices"][0]
            if choice["finish_reason"] == "stop":
                self.assertTrue(is_valid(json.loads(choice["message"]["content"])), choice)
            else:
                self.assertEqual(choice["finish_reason"], "length")
        for kind, value, pattern in (("regex", r"[0-9]{4}-[0-9]{2}", r"[0-9]{4}-[0-9]{2}"),
                                     ("choice", ["yes", "no", "表"], "yes|no|表")):
            choice = self.post("/v1/completions", {"prompt": "Answer: ", "max_tokens": 20, "structured_outputs": {kind: value}})
            self.assertRegex(choice["choices"][0]["text"], f"^(?:{pattern})$")

    def test_a_required_call_has_arguments_of_its_schema(self):
        body = {"messages": [{"role": "user", "content": "Find a pet for me."}], "max_tokens": 400, "temperature": 0.7, "seed": 3,
                "tool_choice": "required", "tools": [{"type": "function", "function": {"name": "find_pet", "parameters": SCHEMA}}]}
        choice = self.post("/v1/chat/completions", body)["choices"][0]
        if choice["finish_reason"] != "length":
            for call in choice["message"]["tool_calls"]:
                self.assertEqual(call["function"]["name"], "find_pet")
                self.assertTrue(is_valid(json.loads(call["function"]["arguments"])), call)

    def test_a_stream_is_the_answer_in_pieces(self):
        body = {"messages": [{"role": "user", "content": "你好 🙂 Hello"}], "max_tokens": 60, "temperature": 0.9, "seed": 1}
        whole = self.post("/v1/chat/completions", body)["choices"][0]["message"]["content"]
        _, text = self.server.request("POST", "/v1/chat/completions", {**body, "stream": True})
        chunks = [json.loads(line) for line in re.findall(r"^data: (\{.*)$", text.decode(), re.M)]
        self.assertEqual("".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"]), whole)


class GemmaInFloat32(Gemma):
    MORE = ("--dtype", "float32")
    LLAMA_CPP = False


class Vectors(Case):
    """all-MiniLM-L6-v2 in float32."""

    DTYPE = "float32"

    @classmethod
    def setUpClass(cls):
        from tokenizers import Tokenizer

        serve_test.MODEL = str(FOLDER / "minilm")
        cls.exact = SentenceEncoder(FOLDER / "minilm")
        cls.tokenizer = Tokenizer.from_file(str(FOLDER / "minilm" / "tokenizer.json"))
        cls.tokenizer.no_padding()
        cls.tokenizer.enable_truncation(256)
        cls.OPTIONS = ("--dtype", cls.DTYPE)
        super().setUpClass()

    def test_vectors_are_those_of_float32(self):
        answer = self.post("/v1/embeddings", {"input": SENTENCES, "truncate_prompt_tokens": 256})
        worst = 0.0
        for text, entry in zip(SENTENCES, answer["data"]):
            exact = self.exact.vector(self.tokenizer.encode(text).ids)
            worst = max(worst, float(np.abs(exact - np.array(entry["embedding"])).max()))
        if REPORTS:
            print(f"all-MiniLM-L6-v2, {self.DTYPE}: worst error {worst:.2e} of {len(SENTENCES)} vectors")
        self.assertLess(worst, WORST_VECTOR_ERROR[self.DTYPE])

    def test_tokens_are_those_of_the_tokenizer(self):
        for text in SENTENCES:
            self.assertEqual(self.post("/tokenize", {"prompt": text})["tokens"][:256][:-1], self.tokenizer.encode(text).ids[:-1])

    def test_a_text_is_nearest_to_its_meaning(self):
        texts = ["A kitten is resting on a rug.", "The stock market fell.", "How do I boil an egg?"]
        vectors = [np.array(entry["embedding"]) for entry in
                   self.post("/v1/embeddings", {"input": ["A cat sits on the mat.", *texts]})["data"]]
        self.assertEqual(int(np.argmax([vectors[0] @ vector for vector in vectors[1:]])), 0)


class VectorsInBfloat16(Vectors):
    DTYPE = "bfloat16"


if __name__ == "__main__":
    serve_test.BINARY, FOLDER = sys.argv[1], Path(sys.argv[2])
    REPORTS = "--report" in sys.argv[3:]
    unittest.main(argv=[sys.argv[0], *(word for word in sys.argv[3:] if word != "--report")], verbosity=2)
