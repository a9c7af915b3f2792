#!/usr/bin/env python3
"""--speculative-config through the program: the same answers, fewer steps, metrics, the log line, refusals.

    speculation_test.py REPRISE_BINARY MODEL_FOLDER

Uses only Python's standard library.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import architectures_test
import serve_test

DRAFTS = '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 5}'
REPEATING = "The cat sat on the mat. The dog sat on the log. " * 4
SOLVED = (
    "Question: Will has 3 trays with 4 grapes in each tray. He gives 2 to Anna. How many grapes does Will have left?\n"
    "Answer: The trays hold 3 * 4 = 12.\nWill loses 2, so 12 - 2 = 10.\n#### 10\n\n"
)
# The answer is contained in the prompt, so that drafts are accepted.
COPY = {"prompt": SOLVED + SOLVED.split("Answer:")[0] + "Answer:", "max_tokens": 60, "temperature": 0, "stop": ["\n\n"]}
CASES = [
    COPY,
    {"prompt": REPEATING, "max_tokens": 60, "temperature": 0, "ignore_eos": True},
    {"prompt": REPEATING, "max_tokens": 60, "temperature": 0.8, "seed": 3, "n": 2, "logprobs": 3},
    {"prompt": REPEATING, "max_tokens": 40, "temperature": 0, "stop": ["dog sat", "log"]},
    {"prompt": "Once upon a time", "max_tokens": 80, "temperature": 1, "seed": 5, "frequency_penalty": 0.5},
    {"prompt": REPEATING, "max_tokens": 30, "temperature": 0, "repetition_penalty": 1.2, "min_tokens": 20},
    {"prompt": "a b a b a b a b", "max_tokens": 40, "temperature": 0, "ignore_eos": True, "presence_penalty": -1},
    {"prompt": REPEATING, "max_tokens": 24, "temperature": 0.5, "seed": 1, "guided_regex": "(cat|dog|log| ){3,12}"},
]


def run(*arguments):
    return subprocess.run([serve_test.BINARY, *arguments], capture_output=True, text=True, timeout=300, check=False)


def answers_of(server):
    answers = []
    for body in CASES:
        status, answer = server.post("/v1/completions", body)
        assert status == 200, answer
        answers.append((answer["choices"], answer["usage"]))
    return answers


class Speculation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        plain = serve_test.Server("--max-model-len", "512")
        try:
            cls.plain = answers_of(plain)
            cls.plain_steps = sum_of(plain, "reprise:cudagraph_dispatch_total")
        finally:
            plain.stop()
        cls.server = serve_test.Server(
            "--max-model-len", "512", "--async-scheduling", "--speculative-config", DRAFTS, VLLM_LOG_STATS_INTERVAL="1"
        )

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_answers_are_those_without_drafts(self):
        for body, wanted, answer in zip(CASES, self.plain, answers_of(self.server), strict=True):
            self.assertEqual(answer, wanted, body)

    def test_a_stream_has_the_same_text_and_log_probabilities_in_fewer_events(self):
        body = {**COPY, "logprobs": 1}
        for _ in range(16):  # in other tests drafts fail, and one request in sixteen still gets drafts
            self.server.post("/v1/completions", body)
        _, whole = self.server.post("/v1/completions", body)
        _, events = self.server.request("POST", "/v1/completions", {**body, "stream": True})
        choices = [
            json.loads(line[6:])["choices"][0] for line in events.decode().splitlines()
            if line.startswith("data: {")
        ]
        wanted = whole["choices"][0]
        self.assertEqual("".join(choice["text"] for choice in choices), wanted["text"])
        tokens = [token for choice in choices if choice["logprobs"] for token in choice["logprobs"]["token_logprobs"]]
        self.assertEqual(tokens, wanted["logprobs"]["token_logprobs"])
        self.assertLess(len(choices), len(tokens))

    def test_metrics_and_the_log_say_what_drafts_brought(self):
        answers_of(self.server)
        metric = lambda name, labels="": self.server.metric("vllm:spec_decode_" + name, labels)
        drafts, tokens = metric("num_drafts_total"), metric("num_draft_tokens_total")
        accepted = metric("num_accepted_tokens_total")
        by_position = [
            metric("num_accepted_tokens_per_pos_total", f'position="{position}"') for position in range(4)
        ]
        self.assertGreater(accepted, 0)
        self.assertGreaterEqual(tokens, accepted)
        self.assertGreaterEqual(4 * drafts, tokens)
        self.assertEqual(sum(by_position), accepted)
        self.assertEqual(by_position, sorted(by_position, reverse=True))
        line = re.compile(
            r"SpecDecoding metrics: Mean acceptance length: \d+\.\d\d, Accepted throughput: \d+\.\d\d tokens/s, Drafted "
            r"throughput: \d+\.\d\d tokens/s, Accepted: \d+ tokens, Drafted: \d+ tokens, Per-position acceptance rate: "
            r"(\d\.\d{3}, ){3}\d\.\d{3}, Avg Draft acceptance rate: \d+\.\d%"
        )
        self.server.wait_until(lambda: line.search(self.server.text()))

    def test_asynchronous_scheduling_is_turned_off_with_one_sentence(self):
        self.assertEqual(self.server.text().count("Async scheduling is not supported with ngram speculative decoding"), 1)

    def test_fewer_steps_are_needed_and_uniform_ones_replay_full_graphs(self):
        before = sum_of(self.server, "reprise:cudagraph_dispatch_total")
        answers_of(self.server)
        self.assertLess(sum_of(self.server, "reprise:cudagraph_dispatch_total") - before, self.plain_steps)
        _, text = self.server.request("GET", "/metrics")
        uniform = re.findall(r'^reprise:cudagraph_dispatch_total\{(.*uniform".*)\} \d+$', text.decode(), re.M)
        self.assertTrue(any("tokens=5 reqs=1 uniform" in labels for labels in uniform), uniform)
        self.assertTrue(any("tokens=1 reqs=1 uniform" in labels for labels in uniform), uniform)
        for labels in uniform:
            self.assertIn('reason="full_uniform"', labels)

    def test_explain_knows_the_sizes_of_both_widths(self):
        short = ["--spec-method", "ngram", "--spec-tokens", "4"]
        for options in (["--num-speculative-tokens", "4"], ["--speculative-config", DRAFTS], short):
            done = run("explain", "--json", "--max-num-seqs", "4", *options, "--batch", "decode:3", "--batch", "uniform:3x1")
            self.assertEqual(done.returncode, 0, done.stderr)
            explained = json.loads(done.stdout)
            self.assertEqual(explained["capture_sizes"]["decode"], [5, 10, 20])
            self.assertEqual(explained["capture_sizes"]["decode_without_drafts"], [1, 2, 4])
            self.assertEqual(explained["capture_sizes"]["decode_with_fewer_drafts"], {"2": [3, 6, 12]})
            self.assertEqual([d["num_tokens"] for d in explained["decisions"]], [20, 4])
            self.assertEqual({d["reason_code"] for d in explained["decisions"]}, {"full_uniform"})

    def test_the_number_of_requests_chooses_the_number_of_drafts(self):
        """[1, 2, 4]: one or two requests get four drafts; [3, 8, 1]: more get one. Each step replays a FULL graph of its width."""
        schedule = json.dumps({**json.loads(DRAFTS), "num_speculative_tokens_per_batch_size": [[1, 2, 4], [3, 8, 1]]})
        for prompts, width in ((1, 5), (2, 5), (4, 2)):
            words = [word for _ in range(prompts) for word in ("--prompt", REPEATING)]
            options = [*words, "--max-tokens", "40", "--ignore-eos", "--temperature", "0", "--json", "--max-num-seqs", "8", "-cc.cudagraph_mode=FULL_DECODE_ONLY"]
            plain = run("generate", serve_test.MODEL, *options)
            done = run("generate", serve_test.MODEL, *options, "--speculative-config", schedule)
            self.assertEqual(done.returncode, 0, done.stderr)
            tokens, wanted = ([output["token_ids"] for output in json.loads(text.stdout)["outputs"]] for text in (done, plain))
            self.assertEqual(tokens, wanted)
            steps = json.loads(done.stdout)["graphs"]["modes"]["FULL"]["replayed_steps"]
            plain_steps = json.loads(plain.stdout)["graphs"]["modes"]["FULL"]["replayed_steps"]
            self.assertLess(steps, plain_steps, width)
            self.assertLessEqual(plain_steps / steps, width)
        done = run("explain", "--json", "--max-num-seqs", "8", "--speculative-config", schedule, "--batch", "uniform:4x2", "--batch", "uniform:2x5")
        explained = json.loads(done.stdout)
        self.assertEqual(list(explained["capture_sizes"]["decode_with_fewer_drafts"]), ["1"])
        self.assertEqual([d["num_tokens"] for d in explained["decisions"]], [8, 10])
        self.assertEqual({d["reason_code"] for d in explained["decisions"]}, {"full_uniform"})

    def test_what_is_not_supported_is_refused_by_name(self):
        for config, words in (
            ('{"method": "medusa", "num_speculative_tokens": 2}', 'method "medusa" is not supported'),
            ('{"method": "ngram", "num_speculative_tokens": 2, "model": "x"}', "'model' belongs to method draft_model"),
            ('{"method": "ngram", "num_speculative_token": 2}', "did you mean 'num_speculative_tokens'?"),
            ('{"method": "ngram", "num_speculative_tokens": 0}', "expected an integer from 1 to 64"),
            ("3", "expected a JSON object or null"),
        ):
            done = run("generate", serve_test.MODEL, "--prompt", "a", "--speculative-config", config)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(words, done.stderr)
        done = run("generate", serve_test.MODEL, "--prompt", "a", "--spec-method", "ngram", "--spec-tokens", "2", "--spec-model", "x")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("'model' belongs to method draft_model", done.stderr)
        done = run("generate", serve_test.MODEL, "--prompt", "a", "--max-tokens", "2", "--speculative-config", "null")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_members_can_be_given_one_by_one(self):
        done = run("generate", serve_test.MODEL, "--prompt", REPEATING, "--max-tokens", "20", "--temperature", "0", "--json",
                   "--speculative-config.method", "ngram", "--speculative-config.num_speculative_tokens", "3",
                   "--speculative-config.prompt_lookup_min", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        wanted = run("generate", serve_test.MODEL, "--prompt", REPEATING, "--max-tokens", "20", "--temperature", "0", "--json")
        answer, expected = (json.loads(text.stdout)["outputs"][0]["token_ids"] for text in (done, wanted))
        self.assertEqual(answer, expected)


def make_draft_model(folder, num_layers=2, **changes):
    """The bundled model without its last layers: its guesses are sometimes right."""
    for file in Path(serve_test.MODEL).iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    config = Path(folder, "config.json")
    config.write_text(json.dumps({**json.loads(config.read_text()), "num_hidden_layers": num_layers, **changes}))
    return folder


class Suffix(unittest.TestCase):
    def test_answers_are_those_without_drafts_and_known_answers_need_fewer_steps(self):
        plain = serve_test.Server("--max-model-len", "512")
        try:
            wanted = answers_of(plain)
        finally:
            plain.stop()
        server = serve_test.Server("--max-model-len", "512", "--speculative-config",
                                   '{"method": "suffix", "num_speculative_tokens": 8, "suffix_decoding_min_token_prob": 0.05}')
        self.addCleanup(server.stop)
        steps = []
        for _ in range(3):
            before = sum_of(server, "reprise:cudagraph_dispatch_total")
            self.assertEqual(answers_of(server), wanted)
            steps.append(sum_of(server, "reprise:cudagraph_dispatch_total") - before)
        self.assertLess(steps[2], 0.8 * steps[0], steps)
        self.assertGreater(server.metric("vllm:spec_decode_num_accepted_tokens_total"), 100)


MTP_TARGET = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 16, "q_lora_rank": 24, "kv_lora_rank": 32, "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8, "v_head_dim": 10, "n_routed_experts": 8, "n_group": 4, "topk_group": 2, "num_experts_per_tok": 3,
    "n_shared_experts": 1, "moe_intermediate_size": 32, "routed_scaling_factor": 1.5, "first_k_dense_replace": 1,
    "vocab_size": 1024, "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "hidden_act": "silu",
    "num_nextn_predict_layers": 1,
}
GLM_MTP_TARGETS = (
    {key: value for key, value in MTP_TARGET.items() if "_rank" not in key and "_dim" not in key} | {
        "architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "use_qk_norm": True, "partial_rotary_factor": 0.5},
    MTP_TARGET | {"architectures": ["Glm4MoeLiteForCausalLM"], "model_type": "glm4_moe_lite"},
)


QWEN_MTP_TARGET = {
    "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "full_attention_interval": 2,
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 12, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32, "vocab_size": 1024, "max_position_embeddings": 256, "hidden_act": "silu",
}


class SecondModel(unittest.TestCase):
    """Drafts that a second model makes: config() names it. The answers are compared with those of a server without drafts."""

    @classmethod
    def setUpClass(cls):
        plain = serve_test.Server("--max-model-len", "512")
        try:
            cls.plain = answers_of(plain)
            cls.plain_steps = sum_of(plain, "reprise:cudagraph_dispatch_total")
        finally:
            plain.stop()

    def serve(self, *options, **members):
        server = serve_test.Server("--max-model-len", "512", "--speculative-config", self.config(**members), *options)
        self.addCleanup(server.stop)
        return server

    def expect_plain_answers(self, server):
        for body, wanted, answer in zip(CASES, self.plain, answers_of(server), strict=True):
            self.assertEqual(answer, wanted, body)


class DraftHead(SecondModel):
    """An EAGLE-3 head that was trained for the bundled model, and MTP layers with made-up weights."""

    @classmethod
    def setUpClass(cls):
        cls.HEAD = str(Path(serve_test.MODEL).parent / "reprise-tiny-eagle3")
        super().setUpClass()

    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    def config(self, **members):
        return json.dumps({"method": "eagle3", "model": self.HEAD, "num_speculative_tokens": 4, **members})

    def test_answers_are_those_without_drafts(self):
        for options, members in (
            (("--async-scheduling",), {}),
            (("--max-num-batched-tokens", "32"), {"max_model_len": 100, "num_speculative_tokens": 1}),
            (("--compilation-config", '{"cudagraph_mode": "FULL"}'), {"enforce_eager": True}),
            (("--enforce-eager", "--no-enable-prefix-caching"), {"quantization": "int8"}),
            (("--block-size", "16", "--level", "0"), {"num_speculative_tokens": 20}),
        ):
            with self.subTest(options=options, members=members):
                server = self.serve(*options, **members)
                self.expect_plain_answers(server)
                self.assertGreater(server.metric("vllm:spec_decode_num_accepted_tokens_total"), 0)
                server.stop()

    def test_the_log_and_metrics_show_the_graphs_of_the_head(self):
        server = self.serve()
        answers_of(server)
        self.assertRegex(server.text(), r"Draft model: 0\.\d M parameters, weights .*, \d+ graphs \(cudagraph_mode FULL_AND_PIECEWISE\)")
        _, text = server.request("GET", "/metrics")
        steps = re.findall(r'^reprise:draft_cudagraph_dispatch_total\{(.*)\} \d+$', text.decode(), re.M)
        for descriptor in ("tokens=5 reqs=1 uniform", "tokens=1 reqs=1 uniform"):
            self.assertTrue(any(descriptor in labels for labels in steps), steps)
        by_position = [
            server.metric("vllm:spec_decode_num_accepted_tokens_per_pos_total", f'position="{position}"') for position in range(4)
        ]
        self.assertEqual(by_position, sorted(by_position, reverse=True))
        self.assertEqual(sum(by_position), server.metric("vllm:spec_decode_num_accepted_tokens_total"))

    def test_it_sleeps_and_wakes_with_the_main_model(self):
        server = self.serve("--dev")
        self.expect_plain_answers(server)
        for level in (1, 2):
            response, _ = server.request("POST", f"/sleep?level={level}")
            self.assertEqual(response.status, 200)
            response, _ = server.request("POST", "/wake_up")
            self.assertEqual(response.status, 200)
            self.expect_plain_answers(server)

    def test_explain_prints_the_sizes_of_the_head(self):
        done = run("explain", "--json", "--max-num-seqs", "4", "--speculative-config", self.config(), "--batch", "decode:3")
        self.assertEqual(done.returncode, 0, done.stderr)
        sizes = json.loads(done.stdout)["capture_sizes"]
        self.assertEqual(sizes["draft_model"]["first"], sizes["decode"])
        self.assertEqual(sizes["draft_model"]["others"], [1, 2, 4])

    def test_an_mtp_head_is_read_from_the_checkpoint_of_its_model(self):
        folder = self.folder()
        for file in Path(serve_test.MODEL).iterdir():
            if file.is_file() and file.suffix != ".safetensors":
                shutil.copy(file, folder)
        generate = ["generate", folder, "--load-format", "dummy", "--prompt", "Once upon a time", "--max-tokens", "30",
                    "--ignore-eos", "--temperature", "0", "--json"]
        for target in (MTP_TARGET, *GLM_MTP_TARGETS, QWEN_MTP_TARGET):
            with self.subTest(target=target["architectures"]):
                Path(folder, "config.json").write_text(json.dumps(target))
                plain = run(*generate)
                self.assertEqual(plain.returncode, 0, plain.stderr)
                done = run(*generate, "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}')
                self.assertEqual(done.returncode, 0, done.stderr)
                answer, wanted = (json.loads(text.stdout)["outputs"][0]["token_ids"] for text in (done, plain))
                self.assertEqual(answer, wanted)
        Path(folder, "config.json").write_text(json.dumps({**MTP_TARGET, "num_nextn_predict_layers": 0}))
        done = run(*generate, "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}')
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("this checkpoint has no MTP layer", done.stderr)

    def test_an_mtp_head_is_found_beside_a_language_model_inside_another_one(self):
        folder = Path(self.folder())
        golden = Path(__file__).parent.parent / "goldens/draft_head/qwen3_5"
        data = (golden / "model.safetensors").read_bytes()
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + size])
        renamed = {re.sub(r"^model\.", "model.language_model.", name): entry for name, entry in header.items()}
        self.assertTrue(any(name.startswith("mtp.layers.0.") for name in renamed))
        text = json.dumps(renamed).encode()
        (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size:])
        inner = json.loads((golden / "config.json").read_text())
        outer = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5",
                 "text_config": {**inner, "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False}}
        (folder / "config.json").write_text(json.dumps(outer))
        architectures_test.write_tokenizer(folder)
        generate = ["generate", str(folder), "--prompt", "abc", "--max-tokens", "30", "--ignore-eos", "--temperature", "0", "--json"]
        plain = run(*generate)
        self.assertEqual(plain.returncode, 0, plain.stderr)
        done = run(*generate, "--speculative-config", '{"method": "qwen3_5_mtp", "num_speculative_tokens": 3}')
        self.assertEqual(done.returncode, 0, done.stderr)
        answer, wanted = (json.loads(text.stdout)["outputs"][0]["token_ids"] for text in (done, plain))
        self.assertEqual(answer, wanted)

    def test_heads_that_cannot_draft_are_refused_by_name(self):
        stored = json.loads(Path(self.HEAD, "config.json").read_text())
        for changes, words in (
            ({"architectures": ["MedusaModel"]}, "names no draft head of this method"),
            ({"architectures": 3}, "names no draft head of this method"),
            ({"hidden_size": 64}, "but the main model has 128"),
            ({"vocab_size": 1000}, "but the main model has 1024"),
            ({"num_hidden_layers": 2}, "draft heads have 1 layer here"),
            ({"norm_before_fc": True}, "norm_before_fc"),
            ({"eagle_config": {"use_aux_hidden_state": False}}, "use_aux_hidden_state"),
            ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 7]}}, "eagle_aux_hidden_state_layer_ids"),
            ({"eagle_config": None}, "has shape [128, 384], config.json asks for [128, 256]"),
            ({"draft_vocab_size": 600}, "lm_head.weight"),
            ({"intermediate_size": 96}, "E_SHAPE_MISMATCH"),
        ):
            with self.subTest(changes=changes):
                folder = self.folder()
                shutil.copy(Path(self.HEAD, "model.safetensors"), folder)
                Path(folder, "config.json").write_text(json.dumps({**stored, **changes}))
                done = run("generate", serve_test.MODEL, "--prompt", "a", "--speculative-config", self.config(model=folder))
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words, done.stderr)
        for options, words in (
            (["--speculative-config", self.config(model="no/such/folder")], "no/such/folder"),
            (["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}'], "has no MTP head that is supported"),
            (["--speculative-config", self.config(), "--tensor-parallel-size", "2"], "speculative decoding"),
        ):
            done = run("generate", serve_test.MODEL, "--prompt", "a", *options)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)


class DraftModel(SecondModel):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.draft = make_draft_model(cls.folder.name)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def config(self, **members):
        return json.dumps({"method": "draft_model", "model": self.draft, "num_speculative_tokens": 3, **members})

    def test_answers_are_those_without_drafts(self):
        for options, members in (
            ((), {}),
            ((), {"draft_sample_method": "probabilistic"}),
            (("--max-num-batched-tokens", "32"), {"max_model_len": 100}),
            (("--compilation-config", '{"cudagraph_mode": "FULL"}'), {"enforce_eager": True}),
            (("--enforce-eager", "--no-enable-prefix-caching"), {"quantization": "int8"}),
        ):
            with self.subTest(options=options, members=members):
                server = self.serve(*options, **members)
                self.expect_plain_answers(server)
                self.assertGreater(server.metric("vllm:spec_decode_num_draft_tokens_total"), 0)
                server.stop()

    def test_the_model_itself_needs_fewer_steps(self):
        server = self.serve(model=serve_test.MODEL, draft_sample_method="probabilistic")
        self.expect_plain_answers(server)
        self.assertLess(sum_of(server, "reprise:cudagraph_dispatch_total"), 0.7 * self.plain_steps)
        drafted = server.metric("vllm:spec_decode_num_draft_tokens_total")
        # Only drafts of the answer with a grammar can be wrong.
        self.assertGreater(server.metric("vllm:spec_decode_num_accepted_tokens_total"), 0.9 * drafted)

    def test_the_log_and_metrics_show_the_graphs_of_the_draft_model(self):
        server = self.serve()
        answers_of(server)
        self.assertRegex(server.text(), r"Draft model: 0\.\d M parameters, weights .*, \d+ graphs \(cudagraph_mode FULL_AND_PIECEWISE\)")
        self.assertRegex(server.text(), r"Start-up time: .*draft graphs \d")
        _, text = server.request("GET", "/metrics")
        steps = re.findall(r'^reprise:draft_cudagraph_dispatch_total\{(.*)\} \d+$', text.decode(), re.M)
        for descriptor in ("tokens=2 reqs=1 uniform", "tokens=1 reqs=1 uniform"):
            self.assertTrue(any(descriptor in labels for labels in steps), steps)
        for labels in steps:
            self.assertIn("full_uniform" if "uniform" in labels.split("reason")[0] else "PIECEWISE", labels)

    def test_it_sleeps_and_wakes_with_the_main_model(self):
        server = self.serve("--dev", model=serve_test.MODEL)
        self.expect_plain_answers(server)
        for level in (1, 2):
            response, _ = server.request("POST", f"/sleep?level={level}")
            self.assertEqual(response.status, 200)
            response, _ = server.request("POST", "/wake_up")
            self.assertEqual(response.status, 200)
            self.expect_plain_answers(server)

    def test_explain_prints_the_sizes_of_the_draft_model(self):
        done = run("explain", "--json", "--max-num-seqs", "4", "--speculative-config", self.config())
        self.assertEqual(done.returncode, 0, done.stderr)
        sizes = json.loads(done.stdout)["capture_sizes"]
        self.assertEqual(sizes["decode"], [4, 8, 16])
        self.assertEqual(sizes["draft_model"]["first"], [2, 4, 8])
        self.assertEqual(sizes["draft_model"]["others"], [1, 2, 4])

    def test_models_that_do_not_fit_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            tokenizer = Path(make_draft_model(folder), "tokenizer.json")
            other = json.loads(tokenizer.read_text())
            vocab = other["model"]["vocab"]
            first, second = [token for token, number in vocab.items() if number in (500, 501)]
            vocab[first], vocab[second] = vocab[second], vocab[first]
            tokenizer.write_text(json.dumps(other))
            for config, words in (
                (self.config(model=folder), "token 500 is"),
                (self.config(model="/no/such/folder"), "/no/such/folder"),
                (self.config(max_model_len=5000), "max_model_len is 5000, but the draft model"),
            ):
                done = run("generate", serve_test.MODEL, "--prompt", "a", "--speculative-config", config)
                self.assertNotEqual(done.returncode, 0, done.stdout)
                self.assertIn(words, done.stderr)
            make_draft_model(folder, vocab_size=1000)
            done = run("generate", serve_test.MODEL, "--prompt", "a", "--load-format", "dummy",
                       "--speculative-config", self.config(model=folder))
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("has a vocabulary of 1000 tokens, and the main model has 1024", done.stderr)
            Path(folder, "config.json").write_text(json.dumps(QWEN_MTP_TARGET))
            done = run("generate", serve_test.MODEL, "--prompt", "a", "--load-format", "dummy",
                       "--speculative-config", self.config(model=folder))
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("(Qwen3NextForCausalLM) has recurrent layers", done.stderr)


def sum_of(server, name):
    _, text = server.request("GET", "/metrics")
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.decode().splitlines() if line.startswith(name + "{"))


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
