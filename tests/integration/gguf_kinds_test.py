#!/usr/bin/env python3
"""GGUF files of every architecture: the tokens and vectors of Transformers.

    gguf_kinds_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER

The models are those of tests/goldens, converted by tools/convert_to_gguf.py. Uses only Python's standard library.
"""

import json
import shutil
import sys
import unittest
from pathlib import Path

import architectures_test
import gguf_test

TWO_LAYERS = {"layer_types": ["sliding_attention", "full_attention"]}
HYBRID_LAYERS = {"layer_types": ["linear_attention", "full_attention", "linear_attention"]}
# Overrides: what the format has no key for, because the published models of the class all have the same.
KINDS = {
    "granite": {}, "olmo2": {}, "olmo3": {}, "ernie4_5": {}, "minicpm": {}, "phi3": {}, "phi3-longrope": {}, "seed-oss": {},
    "smollm3": {"no_rope_layers": [1, 0]}, "mixtral": {"sliding_window": 13}, "qwen2-moe": {}, "olmoe": {}, "granite-moe": {},
    "gemma": {}, "gemma2": {"query_pre_attn_scalar": 24}, "gemma3": {"query_pre_attn_scalar": 24} | TWO_LAYERS,
    "starcoder2": {"sliding_window": 10}, "gpt-bigcode": {}, "gpt2": {}, "gpt-neox": {}, "gpt-neox-sequential": {},
    "falcon-7b": {}, "falcon-11b": {}, "falcon-40b": {}, "stablelm": {}, "stablelm-parallel": {}, "cohere": {},
    "cohere2": TWO_LAYERS, "glm": {}, "glm4": {}, "qwen3-next": HYBRID_LAYERS | {"mlp_only_layers": [1]}, "mamba": {},
    "mamba2": {}, "lfm2": {}, "falcon-h1": {}, "granite-moe-hybrid": {}, "granite-moe-hybrid-experts": {},
    "gpt-oss": TWO_LAYERS | {"swiglu_limit": 0.75}, "deepseek-v2": {}, "deepseek-v2-lite": {"rope_scaling": {"mscale": 0.7}},
    "deepseek-v3": {"rope_scaling": {"mscale": 0.7}},
    "llama4": {"attention_chunk_size": 9, "attn_scale": 0.4, "floor_scale": 5, "moe_layers": [0, 2, 3]},
    "qwen3_5": HYBRID_LAYERS, "qwen3_5-moe": HYBRID_LAYERS,
}


# Models that make vectors, and their members that the format has no key for.
ENCODERS = {"bert-mean": {}, "bert-cls": {"hidden_act": "gelu_new"}, "roberta-cls": {}, "xlm-roberta-mean": {}, "qwen3-last": {}}
WORDS = ["the", "cat", "sat", "on", "mat", "with", "hat", "##s", "##ing", "##ed"]


def typed(case):
    return "".join(architectures_test.LETTERS[token] for token in case["prompt"])


def write_word_pieces(folder, size):
    """A tokenizer of `size` pieces, as BERT has it."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + letter for letter in letters), *WORDS, ".", ","]
    pieces += [f"[unused{i}]" for i in range(size - len(pieces))]
    ends = {token: {"id": token, "ids": [pieces.index(token)], "tokens": [token]} for token in ("[CLS]", "[SEP]")}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                          "special": True} for i, token in enumerate(pieces[:5])],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                       "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing", "special_tokens": ends,
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": []},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                  "vocab": {piece: i for i, piece in enumerate(pieces)}}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}))


class Kinds(gguf_test.Case):
    def copy_of(self, name):
        """The folder, and its prompts that can be typed."""
        folder = self.folder / name
        if not folder.exists():
            shutil.copytree(SOURCE / "tests" / "goldens" / "architectures" / name, folder)
            architectures_test.write_tokenizer(folder)
        return folder, [case for case in json.loads((folder / "golden.json").read_text())["cases"] if max(case["prompt"]) < 94]

    def test_give_the_tokens_of_transformers(self):
        for name, overrides in KINDS.items():
            folder, cases = self.copy_of(name)
            prompts = [word for case in cases for word in ("--prompt", typed(case))]
            with self.subTest(name):
                self.assertGreater(len(cases), 1)
                got = self.tokens(self.gguf(folder, "f32"), *prompts, "--dtype", "float32", "--ignore-eos", "--temperature", "0",
                                  "--hf-overrides", json.dumps(overrides))
                self.assertEqual(got, [case["continuation"][:24] for case in cases])


class Vectors(gguf_test.Case):
    def copy_of(self, name):
        folder = self.folder / f"{self.id()}-{name}"
        shutil.copytree(SOURCE / "tests" / "goldens" / "pooling" / name, folder)
        return folder, json.loads((folder / "golden.json").read_text())["cases"]

    def vectors(self, model, texts, *options):
        post = self.serve(model, "--dtype", "float32", "--disable-compile-cache", *options)
        answer = post("/v1/embeddings", {"input": texts})
        self.assertIn("data", answer, answer)
        return [item["embedding"] for item in answer["data"]]

    def test_are_those_of_the_folder_and_of_transformers(self):
        for name, overrides in ENCODERS.items():
            folder, cases = self.copy_of(name)
            architectures_test.write_tokenizer(folder)
            texts = [case["text"] for case in cases]
            with self.subTest(name):
                got = self.vectors(self.gguf(folder, "f32"), texts, "--hf-overrides", json.dumps(overrides))
                self.assertEqual(got, self.vectors(folder, texts))
                for vector, case in zip(got, cases, strict=True):
                    self.assertLess(max(abs(a - b) for a, b in zip(vector, case["vector"], strict=True)), 1e-5)

    def test_of_texts_are_those_of_the_word_pieces(self):
        folder, _ = self.copy_of("bert-mean")
        write_word_pieces(folder, 96)
        texts = ["The cats sat, with hats.", "Ça sitting on the MAT", "zx9", "[MASK] the [SEP] mat"]
        vectors = self.vectors(folder, texts)
        self.assertEqual(len({tuple(vector) for vector in vectors}), len(texts))
        self.assertEqual(self.vectors(self.gguf(folder, "f32"), texts), vectors)

    def test_of_quantised_encoders_point_where_those_of_their_numbers_do(self):
        for name in ("bert-mean", "roberta-cls"):
            folder, cases = self.copy_of(name)
            architectures_test.write_tokenizer(folder)
            texts = [case["text"] for case in cases]
            for outtype, least in (("q8_0", 0.999), ("q4_0", 0.95)):
                with self.subTest(name, outtype=outtype):
                    for got, case in zip(self.vectors(self.gguf(folder, outtype), texts), cases, strict=True):
                        self.assertGreater(sum(a * b for a, b in zip(got, case["vector"], strict=True)), least)


if __name__ == "__main__":
    BINARY, MODEL, SOURCE = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    gguf_test.BINARY, gguf_test.MODEL, gguf_test.SOURCE = BINARY, MODEL, SOURCE
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
