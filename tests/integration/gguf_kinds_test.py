#!/usr/bin/env python3
"""GGUF files of every architecture: the tokens and vectors of Transformers, and quantised tensors of every kind.

    gguf_kinds_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER

The models are those of tests/goldens, converted by tools/convert_to_gguf.py. Uses only Python's standard library.
"""

import array
import json
import math
import random
import re
import shutil
import statistics
import struct
import sys
import unittest
from pathlib import Path

import architectures_test
import gguf_test
from in_turn import part_of

TWO_LAYERS = {"layer_types": ["sliding_attention", "full_attention"]}
HYBRID_LAYERS = {"layer_types": ["linear_attention", "full_attention", "linear_attention"]}
# Overrides for members for which the format has no key, because all published models of the class share their values.
KINDS = {
    "ministral3": {}, "granite": {}, "olmo2": {}, "olmo3": {}, "ernie4_5": {}, "minicpm": {}, "phi3": {}, "phi3-longrope": {}, "seed-oss": {},
    "smollm3": {"no_rope_layers": [1, 0]}, "mixtral": {"sliding_window": 13}, "qwen2-moe": {}, "olmoe": {}, "granite-moe": {},
    "gemma": {}, "gemma2": {"query_pre_attn_scalar": 24}, "gemma3": {"query_pre_attn_scalar": 24} | TWO_LAYERS,
    "starcoder2": {"sliding_window": 10}, "gpt-bigcode": {}, "gpt2": {}, "gpt-neox": {}, "gpt-neox-sequential": {},
    "falcon-7b": {}, "falcon-11b": {}, "falcon-40b": {}, "stablelm": {}, "stablelm-parallel": {}, "cohere": {}, "cohere-qk-norm": {},
    "cohere2": TWO_LAYERS, "glm": {}, "glm4": {}, "qwen3-next": HYBRID_LAYERS | {"mlp_only_layers": [1]}, "mamba": {},
    "mamba2": {}, "lfm2": {}, "falcon-h1": {}, "granite-moe-hybrid": {}, "granite-moe-hybrid-experts": {},
    "gpt-oss": TWO_LAYERS | {"swiglu_limit": 0.75}, "deepseek-v2": {}, "deepseek-v2-lite": {"rope_scaling": {"mscale": 0.7}},
    "deepseek-v3": {"rope_scaling": {"mscale": 0.7}}, "deepseek-v3-scores": {},
    "llama4": {"attention_chunk_size": 9, "attn_scale": 0.4, "floor_scale": 5, "moe_layers": [0, 2, 3]},
    "llama4-two-experts": {"attention_chunk_size": 9, "attn_scale": 0.4, "floor_scale": 5, "moe_layers": [0, 1]},
    "qwen3_5": HYBRID_LAYERS, "qwen3_5-moe": HYBRID_LAYERS, "qwen3_5-odd-rotation": HYBRID_LAYERS,
    "glm4-moe": {}, "solar-open": {}, "dots1": {"sliding_window": 9, "layer_types": ["full_attention", "full_attention", "sliding_attention"]},
    "minimax-m2": {}, "ernie4_5-moe": {}, "hunyuan": {}, "hunyuan-moe": {}, "exaone4": {}, "lfm2-moe": {},
    "mistral4": {"rope_scaling": {"llama_4_scaling_beta": 0.4}},
    "mistral4-scaled-experts": {"rope_interleave": False, "rope_scaling": {"mscale": 0.7}},
    "deepseek-v3_2": {"rope_scaling": {"mscale": 0.7}}, "glm-moe-dsa": {},
    "kimi-linear": {"linear_num_heads": 5, "num_expert_group": 2},
    "mimo-v2": {"routed_scaling_factor": 1.5, "rope_parameters": {"sliding_attention": {"partial_rotary_factor": 0.25}}},
    "mimo-v2-odd-rotation": {"routed_scaling_factor": 1.5},
    # The file's factors are for the frequencies of whole heads.
    "step3p7": {"query_pre_attn_scalar": 24, "rope_parameters": {"full_attention": {
        "rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16}}},
}


# Models that make vectors, with those of their members for which the format has no key.
ENCODERS = {"bert-mean": {}, "bert-cls": {"hidden_act": "gelu_new"}, "roberta-cls": {}, "xlm-roberta-mean": {}, "qwen3-last": {}}
WORDS = ["the", "cat", "sat", "on", "mat", "with", "hat", "##s", "##ing", "##ed"]


# Classes in which the size of heads or values follows from the hidden size, so the test cannot widen it.
NOT_WIDENED = ("starcoder2", "gpt-bigcode", "gpt2", "gpt-neox", "gpt-neox-sequential", "falcon-7b", "falcon-11b", "falcon-40b", "mamba2",
               "granite-moe-hybrid", "granite-moe-hybrid-experts")
# Modules whose results are hidden states, modules whose inputs are not hidden states, and norms of other vectors.
TO_HIDDEN = re.compile(r"(o_proj|out_proj|down_proj(_bias)?|\.w2|output_linear)(\.weight|\.bias)?$")
NOT_FROM_HIDDEN = re.compile(r"(kv_b_proj|q_b_proj|[fg]_b_proj|wq_b|x_proj|dt_proj|conv1d|A_log)\.|A_log$")
NOT_OF_HIDDEN = re.compile(r"(self_attn\.([qk]_(layer)?norm|(query|key)_layernorm)|_a_layernorm|\.[ko]_norm|(mixer|mamba|linear_attn)\.norm)\.")


def typed(case):
    return "".join(architectures_test.LETTERS[token] for token in case["prompt"])


def as_floats(kind, raw):
    """The bytes of a tensor as those of the float32 numbers that they stand for."""
    import convert_to_gguf

    formats = {number: name for name, number in convert_to_gguf.OUTTYPES.items() if name not in ("q5_mixed", "q4_k_m")}
    if kind == convert_to_gguf.F32:
        return raw
    values = struct.unpack(f"<{len(raw) // 2}e", raw) if kind == convert_to_gguf.F16 else gguf_test.decoded(raw, formats[kind])
    return array.array("f", values).tobytes()


def hidden_axes(name, shape, size):
    """The axes of a tensor that are as long as hidden states."""
    if "conv.conv." in name:  # LFM2 convolves hidden states
        return [0]
    if NOT_OF_HIDDEN.search(name):
        return []
    if "conv.in_proj" in name:
        return [0, 1][: len(shape)]
    if len(shape) == 1:
        return [0] if "norm" in name or (TO_HIDDEN.search(name) and shape[0] == size) else []
    # The experts of some classes are stored [in, out].
    to, of = (1, 2) if TO_HIDDEN.search(name) else (2, 1)
    is_transposed = len(shape) == 3 and shape[of] == size and shape[to] != size
    if TO_HIDDEN.search(name):
        axes = [len(shape) - 1 if is_transposed or name.endswith("_bias") else len(shape) - 2]
        return axes + [1] if "conv.out_proj" in name else axes
    if NOT_FROM_HIDDEN.search(name) or name.endswith("_bias"):
        return []
    return [1] if is_transposed else [len(shape) - 1]


def widen(source, folder):
    """Writes a model of the same class with a hidden size of 256, a super-block, and random weights."""
    import convert_to_gguf
    import gguf_kinds

    checkpoint = convert_to_gguf.Checkpoint(source)
    config = gguf_kinds.text_config(json.loads((source / "config.json").read_text()))
    size = config["hidden_size"]
    if not config.get("head_dim") and "num_attention_heads" in config:
        config["head_dim"] = size // config["num_attention_heads"]
    config["hidden_size"] = 256
    tensors = {}
    for name, entry in checkpoint.tensors.items():
        if convert_to_gguf.is_of_images(name, config):
            continue
        shape, axes, draw = list(entry["shape"]), hidden_axes(name, entry["shape"], size), random.Random(name)
        values = checkpoint.floats(name)
        if axes:
            mean, deviation = statistics.fmean(values), statistics.pstdev(values)
            for axis in axes:
                assert shape[axis] % size == 0, (name, shape)
                shape[axis] *= 256 // size
            deviation *= 1 if TO_HIDDEN.search(name) or len(shape) == 1 else math.sqrt(size / 256)
            values = array.array("f", (draw.gauss(mean, deviation) for _ in range(math.prod(shape))))
        tensors[name] = shape, values
    gguf_test.write_folder(folder, config, tensors)
    architectures_test.write_tokenizer(folder)
    shutil.copy(source / "golden.json", folder / "golden.json")


def mean_distance(first, second):
    return sum(abs(a - b) for a, b in zip(first, second, strict=True)) / len(first)


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
        for name, overrides in part_of(KINDS.items()):
            folder, cases = self.copy_of(name)
            prompts = [word for case in cases for word in ("--prompt", typed(case))]
            with self.subTest(name):
                self.assertGreater(len(cases), 1)
                got = self.tokens(self.gguf(folder, "f32"), *prompts, "--dtype", "float32", "--ignore-eos", "--temperature", "0",
                                  "--hf-overrides", json.dumps(overrides))
                self.assertEqual(got, [case["continuation"][:24] for case in cases])

    def test_explain_says_what_the_start_of_each_decides(self):
        def answer(*arguments):
            run = self.run_cli(*arguments)
            self.assertEqual(run.returncode, 0, run.stderr)
            return json.loads(run.stdout)

        for name, overrides in part_of(KINDS.items()):
            file = self.gguf(self.copy_of(name)[0], "f32")
            for mode in ((), ("-cc.cudagraph_mode", "FULL")):
                options = (file, *mode, "--max-num-seqs", "4", "--hf-overrides", json.dumps(overrides))
                with self.subTest(name, mode=mode):
                    graphs = answer("generate", *options, "--prompt", "a", "--max-tokens", "1", "--json")["graphs"]
                    self.assertEqual(answer("explain", *options, "--json")["resolved"], graphs["cudagraph_mode"])

    def logprobs(self, model, name):
        """The log probability of every token of the golden texts, after the ones before it."""
        cases = [case for case in self.copy_of(name)[1] if max(case["continuation"]) < len(architectures_test.LETTERS)]
        request, result = self.folder / "request.jsonl", self.folder / "result.jsonl"
        request.write_text("\n".join(json.dumps({
            "custom_id": str(i), "method": "POST", "url": "/v1/completions",
            "body": {"prompt": case["prompt"] + case["continuation"], "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0},
        }) for i, case in enumerate(cases)))
        run = self.run_cli("run-batch", model, "-i", request, "-o", result, "--dtype", "float32", "--enforce-eager",
                           "--hf-overrides", json.dumps(KINDS[name]))
        self.assertEqual(run.returncode, 0, run.stderr)
        # Of the smallest experts, a matrix has no whole panels of rows. Everything else stays packed.
        remarks = [line for line in run.stderr.splitlines() if "dequantised" in line]
        self.assertTrue(all(re.search(r"experts are dequantised .* rows of an expert are not a multiple of 16$", line)
                            for line in remarks), run.stderr)
        logprobs = []
        for line in result.read_text().splitlines():
            choice = json.loads(line)["response"]["body"]["choices"][0]
            logprobs += [next(iter(entry.values()))["logprob"] for entry in choice["prompt_logprobs"][1:]]
        self.assertTrue(all(map(math.isfinite, logprobs)), logprobs)
        return logprobs

    def errors(self, folder, name, outtype):
        """How far probabilities are from those of the numbers that packed weights stand for, and how far these are from those of
        the weights before they were quantised."""
        import convert_to_gguf

        config = json.loads((folder / "config.json").read_text())
        tensors = list(convert_to_gguf.tensors_of(folder, config, outtype))
        self.assertGreater(sum(kind == convert_to_gguf.OUTTYPES[outtype] for _, _, kind, _ in tensors), 2)
        keys = convert_to_gguf.config_keys(config, outtype) + convert_to_gguf.tokenizer_keys(folder, config["vocab_size"])
        packed, numbers = self.folder / "packed.gguf", self.folder / "numbers.gguf"
        convert_to_gguf.write_file(packed, keys, tensors)
        convert_to_gguf.write_file(numbers, keys, [
            (tensor, shape, convert_to_gguf.F32, as_floats(kind, raw)) for tensor, shape, kind, raw in tensors])
        want = self.logprobs(numbers, name)
        exact = self.logprobs(self.gguf(folder, "f32"), name)
        return mean_distance(self.logprobs(packed, name), want), mean_distance(exact, want)

    def test_give_the_probabilities_of_their_dequantised_tensors(self):
        """The kernels of packed weights quantise activations to eight bits. That moves probabilities far less than the rounding
        of weights to four bits, and an error in the place of rows or matrices as much as other weights would."""
        for name in part_of(KINDS):
            folder, _ = self.copy_of(name)
            with self.subTest(name):
                if name not in NOT_WIDENED:
                    widen(folder, self.folder / f"{name}-wide")
                    folder = self.folder / f"{name}-wide"
                error, rounding = self.errors(folder, name, "q4_0" if name in NOT_WIDENED else "q4_k")
                errors = [error, self.errors(folder, name, "q8_0")[0]]
                self.assertGreater(min(errors), 0, "nothing was packed")
                self.assertLess(max(errors), rounding / 5)


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
