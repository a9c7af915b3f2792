#!/usr/bin/env python3
"""The program with a folder of each architecture: the tokens that Transformers computed, and a dump.

    architectures_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER

The folders are those of tests/goldens/architectures with a tokenizer of 96 letters, so that a prompt of token ids can
be typed. Uses only Python's standard library.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import serve_test

BINARY = SOURCE = None
# Writes token ids as text: the letters of byte-level vocabularies that are one byte of UTF-8, and two more.
LETTERS = [chr(byte) for byte in (*range(33, 127), 161, 162)]


def write_tokenizer(folder):
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {letter: i for i, letter in enumerate(LETTERS)}, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")


def run(*words):
    return subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=300)


class GoldenModels(unittest.TestCase):
    """Runs models of tests/goldens/architectures."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="reprise_architectures_")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "model"

    def copy_of(self, name):
        golden = SOURCE / "tests" / "goldens" / "architectures" / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        for file in ("config.json", "model.safetensors"):
            shutil.copy(golden / file, self.folder / file)
        write_tokenizer(self.folder)
        return json.loads((golden / "golden.json").read_text())["cases"]

    def generate(self, cases, *options):
        """Checks the tokens of all prompts that can be typed, in one batch; returns what the program printed."""
        typed = [case for case in cases if max(case["prompt"]) < 94]
        prompts = [word for case in typed for word in ("--prompt", "".join(LETTERS[token] for token in case["prompt"]))]
        done = run("generate", self.folder, *prompts, "--json", "--temperature", 0, "--ignore-eos",
                   "--max-tokens", len(cases[0]["continuation"]), "--dtype", "float32", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        tokens = [answer["token_ids"] for answer in result["outputs"]]
        self.assertEqual(tokens, [case["continuation"] for case in typed])
        return done


class Architectures(GoldenModels):
    def test_generate_gives_the_tokens_of_transformers(self):
        names = sorted(path.name for path in (SOURCE / "tests" / "goldens" / "architectures").iterdir())
        self.assertGreater(len(names), 20)
        for name in names:
            with self.subTest(name):
                cases = self.copy_of(name)
                done = self.generate(cases, "--disable-compile-cache")
                self.assertNotIn("not used", done.stderr)

    def test_small_chunks_and_preemption_change_no_token(self):
        # The prompts and 128 answer tokens need more blocks than there are, so requests lose their blocks and start
        # again. The test scheduling_goldens does this with every architecture; here the program's options do it.
        for name in ("gemma3", "deepseek-v3", "bamba", "glm-moe-dsa", "mimo-v2"):
            with self.subTest(name):
                self.generate(self.copy_of(name), "--num-gpu-blocks-override", 8, "--max-model-len", 96,
                              "--max-num-batched-tokens", 8, "--max-num-seqs", 4)

    def test_preemption_and_cached_prefixes_change_no_token_of_a_server(self):
        # Six blocks per request are enough for each request alone, but eight blocks are too few for all four at once.
        for name in ("llama4", "llama4-vl", "gemma3", "gpt-oss", "deepseek-v3", "qwen3-moe"):
            with self.subTest(name):
                cases = self.copy_of(name)
                want = [case["continuation"] for case in cases]
                serve_test.MODEL = str(self.folder)
                server = serve_test.Server("--dtype", "float32", "--disable-compile-cache", "--num-gpu-blocks-override", "9",
                                           "--max-model-len", "96", "--max-num-batched-tokens", "8", "--max-num-seqs", "4",
                                           "--enable-prompt-tokens-details")
                self.addCleanup(server.stop, 9)

                def complete(prompts, server=server, length=len(want[0])):
                    status, answer = server.post("/v1/completions", {
                        "prompt": prompts, "temperature": 0, "max_tokens": length, "ignore_eos": True, "return_token_ids": True})
                    self.assertEqual(status, 200, answer)
                    return [choice["token_ids"] for choice in answer["choices"]], answer["usage"]

                self.assertEqual(complete([case["prompt"] for case in cases])[0], want)
                self.assertGreater(server.metric("vllm:num_preemptions_total"), 0)
                # The cache has two blocks of the 40 tokens; the rest is computed.
                complete([cases[3]["prompt"]])
                tokens, usage = complete([cases[3]["prompt"]])
                self.assertEqual(tokens, want[3:])
                self.assertEqual(usage["prompt_tokens_details"]["cached_tokens"], 32)
                self.assertEqual(server.metric("reprise:failed_steps_total"), 0)
                server.stop()

    def test_dump_shows_the_program(self):
        for name, op in (("gemma2", "soft_cap"), ("gpt2", "layer_norm"), ("mixtral", "expert_linear"), ("llama4", "chunk_size=9"),
                         ("deepseek-v3", "mla_attention"), ("glm-moe-dsa", "top_k=20"), ("bamba", "selective_state_update"),
                         ("qwen3-next", "gated_delta_rule"), ("lfm2", "short_conv")):
            with self.subTest(name):
                self.copy_of(name)
                done = run("dump", self.folder, "--load-format", "dummy")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(op, done.stdout)

    def test_a_checkpoint_without_the_first_part_of_its_names_runs(self):
        cases = self.copy_of("gpt2")
        path = self.folder / "model.safetensors"
        data = path.read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = data[8:8 + length].replace(b'"transformer.', b'"')
        path.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length:])
        self.generate(cases)

    def test_an_unknown_architecture_is_refused_with_the_nearest_name_and_the_command_that_lists_all(self):
        self.copy_of("mixtral")
        config = json.loads((self.folder / "config.json").read_text())
        config["architectures"] = ["Mixtral2ForCausalLM"]
        (self.folder / "config.json").write_text(json.dumps(config))
        done = run("generate", self.folder, "--prompt", "a")
        self.assertEqual(done.returncode, 2)
        self.assertIn("`reprise reference architectures` lists", done.stderr)
        listed = subprocess.run([BINARY, "reference", "architectures"], capture_output=True, text=True, timeout=60, check=True)
        self.assertIn("| `GPT2LMHeadModel` |", listed.stdout)
        self.assertIn("did you mean 'MixtralForCausalLM'", done.stderr)


if __name__ == "__main__":
    BINARY = serve_test.BINARY = sys.argv[1]
    SOURCE = Path(sys.argv[3])
    unittest.main(argv=sys.argv[:1])
