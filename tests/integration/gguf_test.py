#!/usr/bin/env python3
"""GGUF files as MODEL: the same tokens as the model folder that they were made of.

    gguf_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER

The files are made by tools/convert_to_gguf.py. Uses only Python's standard library.
"""

import http.client
import json
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

import architectures_test

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


def decoded(blocks, outtype):
    """The values of Q8_0, Q5_0 or Q4_0 blocks."""
    values = []
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


class Generate(Case):
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

    def test_gives_the_tokens_of_transformers_where_names_and_factors_differ(self):
        # The format has no key for the layers without rotation: they are every fourth one.
        overrides = {"smollm3": ("--hf-overrides", '{"no_rope_layers":[1,0]}')}
        for name in ("granite", "olmo2", "ernie4_5", "minicpm", "phi3", "phi3-longrope", "seed-oss", "smollm3"):
            folder = self.folder / name
            shutil.copytree(SOURCE / "tests" / "goldens" / "architectures" / name, folder)
            architectures_test.write_tokenizer(folder)
            cases = [case for case in json.loads((folder / "golden.json").read_text())["cases"] if max(case["prompt"]) < 94]
            prompts = [word for case in cases for word in
                       ("--prompt", "".join(architectures_test.LETTERS[token] for token in case["prompt"]))]
            with self.subTest(name):
                self.assertGreater(len(cases), 1)
                got = self.tokens(self.gguf(folder, "f32"), *prompts, "--dtype", "float32", "--ignore-eos", "--temperature", "0",
                                  *overrides.get(name, ()))
                self.assertEqual(got, [case["continuation"][:24] for case in cases])

    def test_reads_all_parts_of_a_split_model(self):
        options = ("--prompt", PROMPT, "--ignore-eos")
        first = self.gguf(MODEL, "f16", parts=3)
        self.assertTrue(first.name.endswith("-00001-of-00003.gguf"))
        self.assertEqual(self.tokens(first, *options), self.tokens(self.gguf(MODEL, "f16"), *options))

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
            options = (path, *self.PROMPTS, "--ignore-eos", "--temperature", "0")
            expected = self.tokens(*options, "--enforce-eager")
            for mode in ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"):
                with self.subTest(f"{outtype} in {mode}"):
                    self.assertEqual(self.tokens(*options, "-cc.cudagraph_mode", mode), expected)
            with self.subTest(f"{outtype} in small chunks"):
                chunked = self.tokens(*options, "--max-num-batched-tokens", "5", "--max-num-seqs", "4")
                self.assertEqual(chunked, expected)
            for i, prompt in enumerate(self.PROMPTS[1::2]):
                with self.subTest(f"{outtype}, prompt {i} alone"):
                    alone = self.tokens(path, "--prompt", prompt, "--ignore-eos", "--temperature", "0")
                    self.assertEqual(alone, expected[i : i + 1])

    def test_gives_the_tokens_of_the_dequantised_weights(self):
        """For prompts on which no step is close; the weights alone differ from those before quantisation."""
        for outtype in ("q8_0", "q5_0", "q4_0", "q5_mixed"):
            first = PROMPT if outtype == "q5_mixed" else "Once upon a time"
            options = ("--prompt", first, "--prompt", "The cat sat", "--ignore-eos", "--temperature", "0",
                       "--dtype", "float32")
            with self.subTest(outtype):
                expected = self.tokens(self.dequantised_folder(outtype), *options)
                self.assertEqual(self.tokens(self.gguf(MODEL, outtype), *options), expected)

    def dequantised_folder(self, outtype):
        """The bundled model with matrices that were quantised, and are float32 again."""
        import convert_to_gguf

        folder = self.folder / f"dequantised-{outtype}"
        shutil.copytree(MODEL, folder, ignore=shutil.ignore_patterns("eval", "*.safetensors"))
        checkpoint = convert_to_gguf.Checkpoint(Path(MODEL))
        header, data = {}, b""
        for name, entry in checkpoint.tensors.items():
            values = checkpoint.floats(name)
            if len(entry["shape"]) == 2:
                kind = convert_to_gguf.kind_of(name, entry["shape"], outtype)
                kind_name = {convert_to_gguf.Q8_0: "q8_0", convert_to_gguf.Q5_0: "q5_0"}.get(kind, "q4_0")
                values = decoded(convert_to_gguf.encoded(values, kind), kind_name)
            raw = struct.pack(f"<{len(values)}f", *values)
            header[name] = {"dtype": "F32", "shape": entry["shape"], "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
        text = json.dumps(header).encode()
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
        return folder

    def test_warns_of_no_tensor_when_all_stay_packed(self):
        folder = self.folder / "odd"
        shutil.copytree(SOURCE / "tests" / "goldens" / "tiny-qwen2", folder)
        write_byte_tokenizer(folder)
        run = self.run_cli("generate", self.gguf(folder, "q4_0"), "--prompt", "x", "--max-tokens", "2")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotIn("dequantised", run.stderr)


class Serve(Case):
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
                              ("llama2", {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})):
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
