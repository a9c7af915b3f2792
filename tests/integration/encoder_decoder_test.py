#!/usr/bin/env python3
"""The program with a model of an encoder and a decoder: `generate`, `serve`, `explain`, and malformed folders.

    encoder_decoder_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER

The model is tests/goldens/encoder_decoder/bart with a tokenizer of 96 letters. Uses only Python's standard library.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import architectures_test
import serve_test

BINARY = SOURCE = None


def run(*words):
    return subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=300)


class EncoderDecoder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="reprise_encoder_decoder_")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "model"
        golden = SOURCE / "tests" / "goldens" / "encoder_decoder" / "bart"
        shutil.copytree(golden, self.folder)
        architectures_test.write_tokenizer(self.folder)
        self.cases = json.loads((golden / "golden.json").read_text())["cases"]

    def test_a_server_answers_texts_up_to_the_limit_of_the_encoder(self):
        serve_test.MODEL = str(self.folder)
        server = serve_test.Server("--dtype", "float32", "--disable-compile-cache")
        self.addCleanup(server.stop, 9)
        prompts = [case["text"] for case in self.cases]
        parameters = dict(temperature=0, max_tokens=32, ignore_eos=True, return_token_ids=True)
        status, answer = server.post("/v1/completions", dict(prompt=prompts, **parameters))
        self.assertEqual(status, 200, answer)
        got = [choice["token_ids"] for choice in sorted(answer["choices"], key=lambda choice: choice["index"])]
        self.assertEqual(got, [case["continuation"] for case in self.cases])
        self.assertEqual(answer["usage"]["prompt_tokens"], sum(map(len, prompts)))
        # The text and the answer have separate limits of 64 tokens; two tokens of the answer are given.
        for length, num_tokens, wanted in ((64, 62, 200), (65, 1, 400), (1, 63, 400)):
            body = dict(prompt=[5] * length, max_tokens=num_tokens, ignore_eos=True)
            status, answer = server.post("/v1/completions", body)
            self.assertEqual(status, wanted, (length, num_tokens, answer))
        status, answer = server.post("/v1/completions", dict(prompt=[5] * 65, max_tokens=1))
        self.assertIn("encoder reads at most 64 tokens", answer["error"]["message"])
        status, answer = server.post("/v1/completions", dict(prompt=[5], max_tokens=1, prompt_logprobs=1))
        self.assertEqual(status, 400, answer)

    def test_explain_says_that_only_decode_steps_have_graphs(self):
        explained = run("explain", self.folder)
        self.assertEqual(explained.returncode, 0, explained.stderr)
        self.assertIn("FULL_DECODE_ONLY", explained.stdout)
        self.assertIn("A15 encoder-decoder models", explained.stdout)
        self.assertNotIn("no images", explained.stderr)

    def test_options_of_generation_that_are_not_used_are_named(self):
        self.assertNotIn("not used", run("generate", self.folder, "--prompt", "One", "--max-tokens", 1).stderr)
        (self.folder / "generation_config.json").write_text(json.dumps(
            dict(decoder_start_token_id=2, forced_eos_token_id=2, no_repeat_ngram_size=3, min_length=0, num_beams=4)))
        done = run("generate", self.folder, "--prompt", "One", "--max-tokens", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("forced_eos_token_id 2, no_repeat_ngram_size 3, num_beams 4 are not used", done.stderr)

    def refusal(self, *options, **members):
        config = json.loads((self.folder / "config.json").read_text()) | members
        (self.folder / "config.json").write_text(json.dumps(config))
        done = run("generate", self.folder, "--prompt", "One", "--max-tokens", 1, *options)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_malformed_folders_are_refused_by_name(self):
        good = (self.folder / "config.json").read_text()
        for members, named in ((dict(encoder_layers=0), "encoder_layers"), (dict(decoder_layers=0), "decoder_layers"),
                               (dict(decoder_attention_heads=5, encoder_attention_heads=5), "decoder_attention_heads"),
                               (dict(decoder_start_token_id=None), "decoder_start_token_id"),
                               (dict(d_model=64), "model.shared.weight"), (dict(encoder_layers=4), "model.encoder.layers.3."),
                               (dict(max_position_embeddings=128), "embed_positions"),
                               (dict(encoder_ffn_dim=1 << 40), "encoder_ffn_dim")):
            with self.subTest(named):
                (self.folder / "config.json").write_text(good)
                self.assertIn(named, self.refusal(**members))

    def test_options_without_code_are_refused_by_name(self):
        for options in (["--enable-lora"], ["--attention-backend", "FLASHINFER"], ["--runner", "pooling"],
                        ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 2}']):
            with self.subTest(options):
                self.assertIn("BartForConditionalGeneration", self.refusal(*options))


if __name__ == "__main__":
    BINARY = serve_test.BINARY = sys.argv[1]
    SOURCE = Path(sys.argv[3])
    unittest.main(argv=sys.argv[:1])
