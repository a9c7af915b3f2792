#!/usr/bin/env python3
"""GGUF files of classes that llama.cpp computes too: the probability of every token is llama.cpp's.

    llama_cpp_test.py REPRISE_BINARY SOURCE_FOLDER

The models are those of tests/goldens/architectures, with the sizes that llama.cpp asks for, converted by
tools/convert_to_gguf.py. Nothing is overridden: both programs know a model by its file alone. Needs xllamacpp, so
scripts/test_real_weights.sh runs it.
"""

import array
import json
import math
import random
import statistics
import sys
import unittest
from pathlib import Path

import architectures_test
import gguf_test

BINARY = SOURCE = None
NUM_TOKENS = 40  # more than an index of positions chooses, and more than a window holds
MOST = 1e-4  # float32 in another order of sums
# llama.cpp multiplies keys of the index by a matrix of 64 rows.
INDEX_HEAD_DIM = 64


def golden(name):
    """The config of the language model, and its tensors: shape and values."""
    import convert_to_gguf
    import gguf_kinds

    folder = SOURCE / "tests" / "goldens" / "architectures" / name
    checkpoint = convert_to_gguf.Checkpoint(folder)
    config = gguf_kinds.text_config(json.loads((folder / "config.json").read_text()))
    return config, {tensor: (entry["shape"], array.array("f", checkpoint.floats(tensor)))
                    for tensor, entry in checkpoint.tensors.items() if not convert_to_gguf.is_of_images(tensor, config)}


def with_larger_index(config, tensors):
    old, config["index_head_dim"] = config["index_head_dim"], INDEX_HEAD_DIM
    for name, (shape, values) in tensors.items():
        if ".indexer." not in name or "weights_proj" in name:
            continue
        shape = [shape[0] // old * INDEX_HEAD_DIM, *shape[1:]]
        draw, mean, deviation = random.Random(name), statistics.fmean(values), statistics.pstdev(values)
        tensors[name] = shape, array.array("f", (draw.gauss(mean, deviation) for _ in range(math.prod(shape))))


def with_equal_heads(config, tensors):
    """Files have one number of heads for both kinds of layers, and no groups of experts."""
    heads = config["linear_num_heads"]
    parts = {"q_proj": heads * config["qk_head_dim"], "kv_b_proj": heads * (config["qk_nope_head_dim"] + config["v_head_dim"])}
    config |= {"num_attention_heads": heads, "num_key_value_heads": heads, "num_expert_group": 1}
    full = [i for i, kind in enumerate(config["layer_types"]) if kind == "full_attention"]
    for layer in full:
        prefix = f"model.layers.{layer}.self_attn."
        for module, rows in parts.items():
            shape, values = tensors[f"{prefix}{module}.weight"]
            tensors[f"{prefix}{module}.weight"] = [rows, shape[1]], values[: rows * shape[1]]
        (rows, columns), values = tensors[f"{prefix}o_proj.weight"]
        kept = heads * config["v_head_dim"]
        tensors[f"{prefix}o_proj.weight"] = [rows, kept], array.array(
            "f", (value for row in range(rows) for value in values[row * columns : row * columns + kept]))


def unchanged(config, tensors):
    pass


# How the model of each golden is changed first, where llama.cpp could not load or compute it.
CHANGES = {"mistral4": unchanged, "mimo-v2": unchanged, "step3p7": unchanged, "deepseek-v3_2": with_larger_index,
           "glm-moe-dsa": with_larger_index, "kimi-linear": with_equal_heads, "deepseek-v3": unchanged}
# The keys that the converter writes for a checkpoint in Mistral's own form.
TEMPERATURE = [("mistral4.attention.temperature_scale", 6, 0.4), ("mistral4.attention.temperature_length", 4, 20)]


class LlamaCpp:
    def __init__(self, path):
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx, params.n_parallel, params.warmup = 256, 1, False
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # its threads wait busily for each other
        # llama.cpp's other kind of attention, and its default cache, have only 16 bits.
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        self.server = xllamacpp.Server(params)

    def log_probability(self, tokens, following):
        answer = self.server.handle_completions(
            {"prompt": tokens, "max_tokens": 1, "temperature": 0, "n_probs": 100, "cache_prompt": False})
        entry = answer["choices"][0]["logprobs"]["content"][0]
        return {top["id"]: top["logprob"] for top in entry["top_logprobs"]}[following]


class Probabilities(gguf_test.Case):
    def file_of(self, name, more_keys=()):
        import convert_to_gguf

        config, tensors = golden(name)
        CHANGES[name](config, tensors)
        folder = self.folder / f"{name}{len(more_keys)}"
        gguf_test.write_folder(folder, config, tensors)
        architectures_test.write_tokenizer(folder)
        path = folder.with_suffix(".gguf")
        keys = convert_to_gguf.config_keys(config, "f32") + list(more_keys)
        convert_to_gguf.write_file(path, keys + convert_to_gguf.tokenizer_keys(folder, config["vocab_size"]),
                                   list(convert_to_gguf.tensors_of(folder, config, "f32")))
        return path

    def logprobs(self, path, texts):
        request, result = self.folder / "request.jsonl", self.folder / "result.jsonl"
        request.write_text("\n".join(json.dumps({
            "custom_id": str(i), "method": "POST", "url": "/v1/completions",
            "body": {"prompt": text, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}}) for i, text in enumerate(texts)))
        run = self.run_cli("run-batch", path, "-i", request, "-o", result, "--dtype", "float32")
        self.assertEqual(run.returncode, 0, run.stderr)
        answers = [json.loads(line)["response"]["body"]["choices"][0] for line in result.read_text().splitlines()]
        return [[next(iter(entry.values()))["logprob"] for entry in answer["prompt_logprobs"][1:]] for answer in answers]

    def check(self, path):
        draw = random.Random(path.name)
        texts = [[draw.randrange(94) for _ in range(NUM_TOKENS)] for _ in range(3)]
        llama_cpp = LlamaCpp(path)
        for text, ours in zip(texts, self.logprobs(path, texts), strict=True):
            theirs = [llama_cpp.log_probability(text[:end], text[end]) for end in range(1, len(text))]
            self.assertLess(max(abs(a - b) for a, b in zip(ours, theirs, strict=True)), MOST)

    def test_are_those_of_llama_cpp(self):
        for name in CHANGES:
            with self.subTest(name):
                self.check(self.file_of(name))

    def test_with_a_temperature_are_those_of_llama_cpp(self):
        self.check(self.file_of("mistral4", TEMPERATURE))


if __name__ == "__main__":
    BINARY, SOURCE = Path(sys.argv[1]), Path(sys.argv[2])
    gguf_test.BINARY, gguf_test.SOURCE = BINARY, SOURCE
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
