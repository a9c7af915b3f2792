#!/usr/bin/env python3
"""GGUF files of every architecture: the tokens of Transformers.

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


def typed(case):
    return "".join(architectures_test.LETTERS[token] for token in case["prompt"])


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


if __name__ == "__main__":
    BINARY, MODEL, SOURCE = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    gguf_test.BINARY, gguf_test.MODEL, gguf_test.SOURCE = BINARY, MODEL, SOURCE
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
