#!/usr/bin/env python3
"""GGUF files as MODEL: the same tokens as the model folder that they were made of.

    gguf_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER

The files are made by tools/convert_to_gguf.py. Uses only Python's standard library.
"""

import array
import ctypes
import http.client
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata
import unittest
from pathlib import Path
from random import Random

from in_turn import every_time, load_tests  # noqa: F401

BINARY = MODEL = SOURCE = None
TIMEOUT = 300
PROMPT = "One day, a little girl named Lily found"
GOLDEN_MODELS = ("tiny-llama", "tiny-llama-tied", "tiny-llama3", "tiny-mistral", "tiny-qwen2", "tiny-qwen3")


def byte_letters():
    """The 256 letters of byte-level vocabularies, by byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable}
    letters.update({byte: chr(256 + i) for i, byte in enumerate(rest)})
    return [letters[byte] for byte in range(256)]


def write_byte_tokenizer(folder):
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {letter: i for i, letter in enumerate(byte_letters())}, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")


def decoded_q4_k(blocks):
    """x = scale * code - least, each of eight parts of 32 with its own scale and least."""
    values = []
    for scale_step, least_step, *raw in struct.iter_unpack("<2e12B128B", blocks):
        packed, pairs = raw[:12], raw[12:]
        for part in range(8):
            if part < 4:
                scale, low = packed[part] & 63, packed[part + 4] & 63
            else:
                scale = packed[part + 4] & 15 | packed[part - 4] >> 6 << 4
                low = packed[part + 4] >> 4 | packed[part] >> 6 << 4
            for pair in pairs[part // 2 * 32 : part // 2 * 32 + 32]:
                values.append(scale_step * scale * (pair >> 4 if part % 2 else pair & 15) - least_step * low)
    return values


def decoded_q6_k(blocks):
    """x = scale * (code - 32), each of sixteen parts of 16 with its own scale."""
    values = []
    for *raw, step in struct.iter_unpack("<192B16be", blocks):
        low_bits, high_bits, scales = raw[:128], raw[128:192], raw[192:]
        for i in range(256):
            half, quarter, at = i // 128, i % 128 // 32, i % 32
            low = low_bits[half * 64 + quarter % 2 * 32 + at] >> (4 if quarter > 1 else 0) & 15
            code = low | (high_bits[half * 32 + at] >> 2 * quarter & 3) << 4
            values.append(step * scales[i // 16] * (code - 32))
    return values


def write_random_llama(folder):
    """A Llama whose rows are whole super-blocks of 256."""
    random = Random(7)
    config = json.loads((SOURCE / "tests" / "goldens" / "tiny-llama" / "config.json").read_text(encoding="utf-8"))
    config |= {"vocab_size": 256, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
               "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 32}
    shapes = {"model.embed_tokens.weight": [256, 256], "lm_head.weight": [256, 256], "model.norm.weight": [256]}
    for layer in range(2):
        prefix = f"model.layers.{layer}"
        shapes |= {f"{prefix}.self_attn.{name}_proj.weight": [256, 256] for name in "qkvo"}
        shapes |= {f"{prefix}.mlp.{name}_proj.weight": [512, 256] for name in ("gate", "up")}
        shapes |= {f"{prefix}.mlp.down_proj.weight": [256, 512]}
        shapes |= {f"{prefix}.{name}_layernorm.weight": [256] for name in ("input", "post_attention")}
    tensors = {}
    for name, shape in shapes.items():
        size = shape[0] * (shape[1] if len(shape) == 2 else 1)
        tensors[name] = shape, [1.0] * size if len(shape) == 1 else [random.gauss(0, 0.05) for _ in range(size)]
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_byte_tokenizer(folder)
    write_safetensors(folder, tensors)


def write_safetensors(folder, tensors):
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        raw = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def decoded(blocks, outtype):
    """The values of quantised blocks."""
    values = []
    if outtype in ("q4_k", "q6_k"):
        return decoded_q4_k(blocks) if outtype == "q4_k" else decoded_q6_k(blocks)
    if outtype == "q8_0":
        for scale, *codes in struct.iter_unpack("<e32b", blocks):
            values += [scale * code for code in codes]
    elif outtype == "q5_0":
        for scale, fifth, *pairs in struct.iter_unpack("<eI16B", blocks):
            codes = [pair & 15 for pair in pairs] + [pair >> 4 for pair in pairs]
            values += [scale * ((code | (fifth >> i & 1) << 4) - 16) for i, code in enumerate(codes)]
    else:
        for scale, *pairs in struct.iter_unpack("<e16B", blocks):
            values += [scale * ((pair & 15) - 8) for pair in pairs] + [scale * ((pair >> 4) - 8) for pair in pairs]
    return values


# Eight experts of 32 rows, three for each token.
MIXTURE = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "num_experts": 8,
    "num_experts_per_tok": 3, "moe_intermediate_size": 32, "norm_topk_prob": True, "decoder_sparse_step": 1,
    "mlp_only_layers": [], "vocab_size": 256, "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
    "tie_word_embeddings": False, "hidden_act": "silu",
}


def mixture_shapes(config):
    hidden, size, head = config["hidden_size"], config["moe_intermediate_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    shapes = {"model.embed_tokens.weight": [config["vocab_size"], hidden], "model.norm.weight": [hidden],
              "lm_head.weight": [config["vocab_size"], hidden]}
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        shapes |= {f"{layer}{name}.weight": shape for name, shape in {
            "input_layernorm": [hidden], "post_attention_layernorm": [hidden], "self_attn.q_proj": [heads, hidden],
            "self_attn.k_proj": [kv_heads, hidden], "self_attn.v_proj": [kv_heads, hidden], "self_attn.o_proj": [hidden, heads],
            "self_attn.q_norm": [head], "self_attn.k_norm": [head], "mlp.gate": [config["num_experts"], hidden]}.items()}
        for expert in range(config["num_experts"]):
            shapes |= {f"{layer}mlp.experts.{expert}.gate_proj.weight": [size, hidden],
                       f"{layer}mlp.experts.{expert}.up_proj.weight": [size, hidden],
                       f"{layer}mlp.experts.{expert}.down_proj.weight": [hidden, size]}
    return shapes


def random_values(name, shape):
    """Float32 values that depend on the name. Weights are so large that layers outweigh the embedding."""
    draw = random.Random(name)
    if len(shape) == 1:
        return array.array("f", (1 + draw.gauss(0, 0.1) for _ in range(shape[0])))
    return array.array("f", (draw.gauss(0, 0.2) for _ in range(shape[0] * shape[1])))


def write_folder(folder, config, tensors):
    folder.mkdir()
    header, data = {}, bytearray()
    for name, (shape, values) in tensors.items():
        raw = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_byte_tokenizer(folder)


class Opens:
    """Counts how often files are opened, by any process, while the block runs."""

    _IN_OPEN = 0x20
    # Equal events in a row become one event. A reader reads after it opens, so two opens never follow each other.
    _MASK = _IN_OPEN | 0x1 | 0x10  # and IN_ACCESS, IN_CLOSE_NOWRITE
    _EVENT = struct.Struct("iIII")

    def __init__(self, *paths):
        self._paths = paths
        self.count = {}

    def __enter__(self):
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._watched = {}
        for path in self._paths:
            watch = libc.inotify_add_watch(self._fd, os.fsencode(path), self._MASK)
            if watch < 0:
                raise OSError(ctypes.get_errno(), "inotify_add_watch")
            self._watched[watch] = path.name
            self.count[path.name] = 0
        return self

    def __exit__(self, *_):
        try:
            while True:
                events = os.read(self._fd, 1 << 16)
                while events:
                    watch, mask, _, size = self._EVENT.unpack_from(events)
                    self.count[self._watched[watch]] += mask & self._IN_OPEN != 0
                    events = events[self._EVENT.size + size:]
        except BlockingIOError:
            pass
        os.close(self._fd)


class Case(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="reprise_gguf_"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        sys.path.insert(0, str(SOURCE / "tools"))
        import convert_to_gguf

        cls.convert = staticmethod(convert_to_gguf.convert)

    def run_cli(self, *arguments):
        return subprocess.run(
            [BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT, check=False
        )

    def answer(self, model, *options):
        run = self.run_cli("generate", model, "--json", "--max-tokens", "24", *options)
        self.assertEqual(run.returncode, 0, run.stderr)
        return json.loads(run.stdout)

    def tokens(self, model, *options):
        outputs = self.answer(model, *options)["outputs"]
        for output in outputs:
            self.assertEqual(len(output["token_ids"]), 24)
        return [output["token_ids"] for output in outputs]

    def gguf(self, source, outtype, parts=1):
        target = self.folder / f"{Path(source).name}-{outtype}.gguf"
        return self.convert(Path(source), target, outtype, parts)[0]

    def serve(self, path, *options):
        """Starts a server and returns a function that posts to it."""
        log = tempfile.TemporaryFile()
        self.addCleanup(log.close)
        arguments = [BINARY, "serve", path, "--port", "0", *options]
        server = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=log)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        deadline = time.monotonic() + TIMEOUT
        text = ""
        while "Application startup complete." not in text:
            self.assertIsNone(server.poll(), text)
            self.assertLess(time.monotonic(), deadline, text)
            time.sleep(0.05)
            log.seek(0)
            text = log.read().decode()
        port = int(re.search(r"server on http://127\.0\.0\.1:(\d+)\n", text)[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        self.addCleanup(connection.close)

        def post(route, body):
            connection.request("POST", route, json.dumps(body), {"Content-Type": "application/json"})
            return json.loads(connection.getresponse().read())

        return post


class Generate(Case):
    @every_time
    def test_gives_the_tokens_and_the_text_of_the_folder(self):
        options = ("--prompt", PROMPT, "--prompt", "Once upon", "--ignore-eos")
        for dtype in ("float32", "bfloat16"):
            expected = self.tokens(MODEL, *options, "--dtype", dtype)
            for outtype in ("f32", "bf16"):
                with self.subTest(f"{outtype} in {dtype}"):
                    self.assertEqual(self.tokens(self.gguf(MODEL, outtype), *options, "--dtype", dtype), expected)

    def test_uses_the_chat_template_and_the_end_tokens_of_the_file(self):
        options = ("--chat", "--prompt", "What is 2 plus 3?")
        expected = self.answer(MODEL, *options)["outputs"][0]
        output = self.answer(self.gguf(MODEL, "bf16"), *options)["outputs"][0]
        for member in ("prompt", "text", "token_ids", "num_prompt_tokens", "finish_reason"):
            self.assertEqual(output[member], expected[member], member)

    def test_gives_the_tokens_of_every_architecture(self):
        for name in GOLDEN_MODELS:
            folder = self.folder / name
            shutil.copytree(SOURCE / "tests" / "goldens" / name, folder)
            write_byte_tokenizer(folder)
            options = ("--prompt", PROMPT, "--dtype", "float32", "--ignore-eos", "--temperature", "0")
            with self.subTest(name):
                expected = self.tokens(folder, *options)
                self.assertGreater(len(set(expected[0])), 3)
                self.assertEqual(self.tokens(self.gguf(folder, "f32"), *options), expected)

    def test_reads_all_parts_of_a_split_model(self):
        options = ("--prompt", PROMPT, "--ignore-eos")
        first = self.gguf(MODEL, "f16", parts=3)
        self.assertTrue(first.name.endswith("-00001-of-00003.gguf"))
        self.assertEqual(self.tokens(first, *options), self.tokens(self.gguf(MODEL, "f16"), *options))

    def test_opens_each_file_once(self):
        options = ("--prompt", PROMPT, "--ignore-eos")
        path = self.gguf(MODEL, "f16")
        with Opens(path) as opens:
            self.tokens(path, *options)
        self.assertEqual(opens.count, {path.name: 1})
        first = self.gguf(MODEL, "f16", parts=2)
        second = first.with_name(first.name.replace("00001-of", "00002-of"))
        with Opens(first, second) as opens:
            self.tokens(first, *options)
        self.assertEqual(opens.count, {first.name: 1, second.name: 1})

    def test_names_what_is_wrong_with_a_file(self):
        path = self.gguf(MODEL, "f16")
        cut = self.folder / "cut.gguf"
        cut.write_bytes(path.read_bytes()[:-1000])
        for model, words in ((cut, "E_TRUNCATED"), (self.folder / "none.gguf", "no such file")):
            run = self.run_cli("generate", model, "--prompt", "x")
            self.assertEqual(run.returncode, 2)
            self.assertIn(model.name, run.stderr)
            self.assertIn(words, run.stderr)


class Packed(Case):
    """Quantised weights stay packed: other kernels, and activations quantised row by row."""

    PROMPTS = ("--prompt", PROMPT, "--prompt", "Once upon a time", "--prompt", "What is 2 plus 3?")

    def test_gives_the_same_tokens_in_every_mode_and_batch(self):
        for outtype in ("q8_0", "q4_0", "q5_mixed"):
            path = self.gguf(MODEL, outtype)
            decoding = ("--ignore-eos", "--temperature", "0", "--batch-invariant")
            options = (path, *self.PROMPTS, *decoding)
            expected = self.tokens(*options, "--enforce-eager")
            for mode in ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"):
                with self.subTest(f"{outtype} in {mode}"):
                    self.assertEqual(self.tokens(*options, "-cc.cudagraph_mode", mode), expected)
            with self.subTest(f"{outtype} in small chunks"):
                chunked = self.tokens(*options, "--max-num-batched-tokens", "5", "--max-num-seqs", "4")
                self.assertEqual(chunked, expected)
            for i, prompt in enumerate(self.PROMPTS[1::2]):
                with self.subTest(f"{outtype}, prompt {i} alone"):
                    self.assertEqual(self.tokens(path, "--prompt", prompt, *decoding), expected[i : i + 1])

    def test_gives_the_tokens_of_the_dequantised_weights(self):
        """For prompts on which no step is close; the weights alone differ from those before quantisation."""
        for outtype in ("q8_0", "q5_0", "q4_0", "q5_mixed"):
            first = PROMPT if outtype == "q5_mixed" else "Once upon a time"
            options = ("--prompt", first, "--prompt", "The cat sat", "--ignore-eos", "--temperature", "0",
                       "--dtype", "float32")
            with self.subTest(outtype):
                expected = self.tokens(self.dequantised_folder(outtype), *options)
                self.assertEqual(self.tokens(self.gguf(MODEL, outtype), *options), expected)

    def prompt_logprobs(self, model):
        """The log probability of every token of a prompt, after the ones before it."""
        body = {"prompt": "Once upon a time, a curious mouse lived here", "max_tokens": 1, "temperature": 0,
                "prompt_logprobs": 0}
        request, result = self.folder / "request.jsonl", self.folder / "result.jsonl"
        request.write_text(json.dumps({"custom_id": "1", "method": "POST", "url": "/v1/completions", "body": body}))
        run = self.run_cli("run-batch", model, "-i", request, "-o", result, "--dtype", "float32")
        self.assertEqual(run.returncode, 0, run.stderr)
        choice = json.loads(result.read_text())["response"]["body"]["choices"][0]
        return [next(iter(entry.values()))["logprob"] for entry in choice["prompt_logprobs"][1:]]

    def test_gives_the_probabilities_of_dequantised_super_blocks(self):
        """Weights are random, so that tokens are close; the rounding of the weights moves probabilities further."""
        source = self.folder / "wide"
        write_random_llama(source)
        before = self.prompt_logprobs(source)
        for outtype in ("q6_k", "q4_k_m"):
            with self.subTest(outtype):
                expected = self.prompt_logprobs(self.dequantised_folder(outtype, source))
                got = self.prompt_logprobs(self.gguf(source, outtype))
                self.assertGreater(len(expected), 30)
                error, rounding = (sum(abs(a - b) for a, b in zip(expected, other)) / len(expected)
                                   for other in (got, before))
                self.assertLess(error, 0.02)
                self.assertGreater(rounding, 2 * error)

    def dequantised_folder(self, outtype, source=None):
        """A model with matrices that were quantised, and are float32 again."""
        import convert_to_gguf

        source = source or MODEL
        folder = self.folder / f"dequantised-{Path(source).name}-{outtype}"
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("eval", "*.safetensors"))
        checkpoint = convert_to_gguf.Checkpoint(Path(source))
        num_layers = json.loads((folder / "config.json").read_text(encoding="utf-8"))["num_hidden_layers"]
        names = {number: name for name, number in convert_to_gguf.OUTTYPES.items()
                 if name not in ("q5_mixed", "q4_k_m")}
        tensors = {}
        for name, entry in checkpoint.tensors.items():
            values = checkpoint.floats(name)
            if len(entry["shape"]) == 2:
                kind = convert_to_gguf.kind_of(name, entry["shape"], outtype, num_layers)
                values = decoded(convert_to_gguf.encoded(values, kind), names[kind])
            tensors[name] = entry["shape"], values
        write_safetensors(folder, tensors)
        return folder

    def test_keeps_experts_packed_in_every_mode_and_gives_the_tokens_of_their_numbers(self):
        import convert_to_gguf

        config = MIXTURE
        shapes = mixture_shapes(config)
        for outtype in ("q8_0", "q4_0"):
            folder, numbers = self.folder / f"mixture-{outtype}", self.folder / f"mixture-numbers-{outtype}"
            tensors, dequantised = {}, {}
            for name, shape in shapes.items():
                values = random_values(name, shape)
                tensors[name] = dequantised[name] = (shape, values)
                kind = convert_to_gguf.kind_of(name, shape, outtype, num_layers=1)
                if kind in (convert_to_gguf.Q8_0, convert_to_gguf.Q4_0):
                    dequantised[name] = (shape, decoded(convert_to_gguf.encoded(values, kind), outtype))
            write_folder(folder, config, tensors)
            write_folder(numbers, config, dequantised)
            path = self.gguf(folder, outtype)
            prompts = [f"{first}{i}{last}" for i, (first, last) in enumerate(zip("abcdefghijkl", "The Reprise!"))]
            options = ([word for prompt in prompts for word in ("--prompt", prompt)]
                       + ["--ignore-eos", "--temperature", "0", "--dtype", "float32"])
            expected = self.tokens(path, *options, "--enforce-eager")
            for mode in ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"):
                with self.subTest(f"{outtype} in {mode}"):
                    self.assertEqual(self.tokens(path, *options, "-cc.cudagraph_mode", mode), expected)
            # Weights are random, so some choices of tokens are close: of twelve first tokens, most must equal those of
            # the unquantised model.
            want = [tokens[0] for tokens in self.tokens(numbers, *options)]
            self.assertGreater(len(set(want)), 6)
            got = [tokens[0] for tokens in expected]
            self.assertGreaterEqual(sum(a == b for a, b in zip(got, want)), 10, (outtype, got, want))
            if outtype == "q8_0":  # quantised while loading, in the same way as by the converter
                self.assertEqual(self.tokens(folder, *options, "--quantization", outtype), expected)
            run = self.run_cli("generate", path, "--prompt", "x", "--max-tokens", "2")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertNotIn("dequantised", run.stderr)

    def test_warns_of_no_tensor_when_all_stay_packed(self):
        folder = self.folder / "odd"
        shutil.copytree(SOURCE / "tests" / "goldens" / "tiny-qwen2", folder)
        write_byte_tokenizer(folder)
        run = self.run_cli("generate", self.gguf(folder, "q4_0"), "--prompt", "x", "--max-tokens", "2")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotIn("dequantised", run.stderr)


class Serve(Case):
    def test_answers_as_a_server_of_the_folder_does(self):
        post = self.serve(self.gguf(MODEL, "bf16"))
        request = {"messages": [{"role": "user", "content": "What is 2 plus 3?"}], "max_tokens": 24}
        body = post("/v1/chat/completions", request)
        expected = self.answer(MODEL, "--chat", "--prompt", "What is 2 plus 3?")["outputs"][0]["text"]
        self.assertEqual(body["choices"][0]["message"]["content"], expected)

    def test_encodes_as_the_tokenizers_of_every_supported_kind(self):
        """Oracle: the PyPI package tokenizers, in tests/goldens/tokenizers."""
        import convert_to_gguf

        goldens = SOURCE / "tests" / "goldens"
        config = json.loads((goldens / "tiny-llama" / "config.json").read_text(encoding="utf-8"))
        for kind, special in (("qwen2", {}), ("llama3", {"bos_token": "<|begin_of_text|>"}),
                              ("llama2", {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}),
                              ("bert", {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"})):
            folder = self.folder / kind
            folder.mkdir()
            tokenizer = json.loads((goldens / "tokenizers" / f"{kind}.tokenizer.json").read_text(encoding="utf-8"))
            (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
            (folder / "tokenizer_config.json").write_text(json.dumps(special), encoding="utf-8")
            keys = convert_to_gguf.config_keys(config, "f32") + convert_to_gguf.tokenizer_keys(folder)
            path = self.folder / f"{kind}.gguf"
            convert_to_gguf.write_file(path, keys, [("token_embd.weight", [1024, 64], 0, bytes(4 * 1024 * 64))])
            post = self.serve(path, "--load-format", "dummy", "--max-model-len", "512", "--enforce-eager")
            # A GGUF file does not store the spaces around added tokens, nor whether they are whole words.
            odd = [unicodedata.normalize("NFC", token["content"]) for token in tokenizer["added_tokens"]
                   if token["lstrip"] or token["rstrip"] or token["single_word"] or token["normalized"]]
            golden = json.loads((goldens / "tokenizers" / f"{kind}.golden.json").read_text(encoding="utf-8"))
            num_checked = 0
            for case in golden["cases"]:
                text = case["text"]
                composed = unicodedata.normalize("NFC", text)
                if not text or len(case["ids"]) > 400 or any(token in composed for token in odd):
                    continue
                for adds, expected in ((False, case["ids"]), (True, case.get("with_special", case["ids"]))):
                    answer = post("/tokenize", {"prompt": text, "add_special_tokens": adds})
                    self.assertEqual(answer.get("tokens"), expected, f"{kind}: {text!r}: {answer}")
                num_checked += 1
            self.assertGreater(num_checked, 300, kind)


if __name__ == "__main__":
    BINARY, MODEL, SOURCE = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
