#!/usr/bin/env python3
"""The whole program on a GPU that a plug-in fakes: the real driver interface, CUDA kernels' own source.

    cuda_program_test.py REPRISE_BINARY MODEL_FOLDER FAKE_PLUGIN

A step takes some tenths of a second here, so requests are few and short. Uses only Python's standard library.
"""

import json
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import architectures_test
import gguf_test
import lora_serve_test
import quantization_test
import serve_test
from in_turn import every_time, load_tests  # noqa: F401

PLUGIN = None
SOURCE = Path(__file__).resolve().parents[2]
GOLDENS = SOURCE / "tests" / "goldens"
LIMITS = ["--max-num-seqs", "2", "--max-num-batched-tokens", "32", "--max-model-len", "128", "--dtype", "float32"]
STORY = {"model": serve_test.NAME, "prompt": "Once upon a time", "temperature": 0, "max_tokens": 6}


class CudaProgram(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """A copy of the program beside which its plug-ins lie, the fake one in the real one's place."""
        cls.cpu_program = Path(serve_test.BINARY)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        serve_test.BINARY = str(cls.folder / "reprise")
        for source in (cls.cpu_program, *cls.cpu_program.parent.glob("reprise_codegen_*.so"), Path(PLUGIN)):
            shutil.copy(source, cls.folder / source.name)

    def generate(self, program, *options, model=None):
        done = subprocess.run([program, "generate", model or serve_test.MODEL, "--prompt", "Once upon a time", "--temperature", "0",
                               "--max-tokens", "6", *LIMITS, *options],
                              capture_output=True, text=True, timeout=serve_test.TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def serve(self, *options, **environment):
        server = serve_test.Server(*LIMITS, "--device", "cuda", "--kv-cache-memory-bytes", "4M", *options, **environment)
        self.addCleanup(server.stop, 9)
        return server

    def complete(self, server, **fields):
        status, answer = server.post("/v1/completions", {**STORY, **fields})
        self.assertEqual(status, 200, answer)
        return answer["choices"][0]["text"]

    @every_time
    def test_generates_what_the_cpu_generates_by_every_mode_and_level(self):
        expected = self.generate(self.cpu_program, "--device", "cpu").stdout
        profiled, given = (), ("--kv-cache-memory-bytes", "4M")
        early = (*given, "--programmatic-dependent-launch")
        for mode, level, cache, replayed in (("FULL_AND_PIECEWISE", 3, profiled, "FULL 5, PIECEWISE 1, eager 0"),
                                             ("FULL", 0, early, "FULL 6, PIECEWISE 0, eager 0"),
                                             ("NONE", 3, given, "FULL 0, PIECEWISE 0, eager 6")):
            done = self.generate(serve_test.BINARY, "--device", "auto", *cache, "--compilation-config",
                                 json.dumps({"mode": level, "cudagraph_mode": mode}))
            self.assertEqual(done.stdout, expected)
            self.assertIn("on Fake GPU", done.stderr)
            self.assertEqual("programmatic dependent launch" in done.stderr, cache == early)
            self.assertIn(f"replayed {replayed} steps", done.stderr)

    def test_serves_what_the_cpu_serves_also_when_steps_are_scheduled_ahead(self):
        expected = self.generate(self.cpu_program, "--device", "cpu").stdout
        for options in ((), ("--async-scheduling",)):
            server = self.serve(*options)
            texts = [None, None]

            def ask(i):
                texts[i] = self.complete(server)

            threads = [threading.Thread(target=ask, args=(i,)) for i in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for text in texts:
                self.assertEqual("Once upon a time" + text, expected.rstrip("\n"))
            sampled = self.complete(server, temperature=1, seed=3)
            self.assertEqual(self.complete(server, temperature=1, seed=3), sampled)
            self.assertGreater(server.metric("reprise:cudagraph_dispatch_total", 'runtime_mode="FULL"'), 0)
            self.assertEqual(server.stop(), 0)

    def test_a_batch_invariant_answer_does_not_depend_on_its_batch(self):
        server = self.serve("--batch-invariant", "--dtype", "bfloat16", "--enable-prefix-caching")
        question = {**STORY, "prompt": "Once upon a time, there was a little girl named Lily. She liked to play in the park with her "
                    "dog, and one day they found a big red ball under the old tree.", "logprobs": 3, "max_tokens": 4}
        answers = []

        def ask(fields):
            status, answer = server.post("/v1/completions", {**question, **fields})
            self.assertEqual(status, 200, answer)
            answers.append((answer["choices"][0]["text"], answer["choices"][0]["logprobs"]))

        ask({})  # 48 tokens, so in two chunks
        ask({"cache_salt": "nothing is cached with it"})
        self.assertGreater(server.metric("vllm:prefix_cache_queries_total"), 0)
        ask({})  # after a cached prefix
        self.assertGreater(server.metric("vllm:prefix_cache_hits_total"), 0)
        both = [threading.Thread(target=ask, args=({"cache_salt": str(i)},)) for i in range(2)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        self.assertEqual(len(answers), 5)
        for answer in answers[1:]:
            self.assertEqual(answer, answers[0])
        self.assertEqual(server.stop(), 0)

    def test_batch_invariance_is_refused_where_plans_follow_from_the_batch(self):
        done = subprocess.run([serve_test.BINARY, "generate", serve_test.MODEL, "--prompt", "x", *LIMITS, "--batch-invariant",
                               "--attention-backend", "FLASHINFER"], capture_output=True, text=True, timeout=serve_test.TIMEOUT)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--batch-invariant: the attention backend FLASHINFER", done.stderr)

    def steps_of(self, done):
        """How many steps each kind of replay took: equal numbers mean that equally many drafts were accepted."""
        return re.search(r"replayed .* steps", done.stderr).group(0)

    def test_drafts_of_every_method_answer_as_without_drafts_and_are_accepted_as_on_the_cpu(self):
        expected = self.generate(self.cpu_program, "--device", "cpu").stdout
        head = Path(serve_test.MODEL).parent / "reprise-tiny-eagle3"
        modes = ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")
        for drafts, its_modes in (({"method": "ngram", "prompt_lookup_min": 1}, modes[-1:]),
                                  ({"method": "suffix"}, modes[-1:]),
                                  ({"method": "draft_model", "model": serve_test.MODEL}, modes[-1:]),
                                  ({"method": "eagle3", "model": str(head)}, modes)):
            for mode in its_modes:
                options = ("--speculative-config", json.dumps({**drafts, "num_speculative_tokens": 3}),
                           "--kv-cache-memory-bytes", "4M", "--compilation-config", json.dumps({"cudagraph_mode": mode}))
                with self.subTest(method=drafts["method"], mode=mode):
                    cpu = self.generate(self.cpu_program, "--device", "cpu", *options)
                    gpu = self.generate(serve_test.BINARY, "--device", "cuda", *options)
                    self.assertEqual((cpu.stdout, gpu.stdout), (expected, expected))
                    self.assertEqual(self.steps_of(gpu), self.steps_of(cpu))
                    if drafts["method"] in ("draft_model", "eagle3"):
                        self.assertLess(sum(map(int, re.findall(r"\d+", self.steps_of(gpu)))), 6, "no draft was accepted")

    def test_weights_that_are_quantised_while_loading_generate_what_the_cpu_generates(self):
        for form in ("q8_0", "int4", "int8", "fp8"):
            options = ("--quantization", form, "--kv-cache-memory-bytes", "4M")
            with self.subTest(form=form):
                expected = self.generate(self.cpu_program, "--device", "cpu", *options).stdout
                self.assertEqual(self.generate(serve_test.BINARY, "--device", "cuda", *options).stdout, expected)

    def test_a_cache_of_eight_bits_generates_what_the_cpu_generates(self):
        for dtype in ("fp8", "fp8_e5m2", "int8_per_token_head"):
            options = ("--kv-cache-dtype", dtype, "--kv-cache-memory-bytes", "4M")
            with self.subTest(dtype=dtype):
                expected = self.generate(self.cpu_program, "--device", "cpu", *options).stdout
                self.assertEqual(self.generate(serve_test.BINARY, "--device", "cuda", *options).stdout, expected)

    def copy_of(self, golden):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        model = Path(folder.name) / "model"
        shutil.copytree(GOLDENS / golden, model)
        architectures_test.write_tokenizer(model)
        return model

    def test_models_of_other_kinds_generate_what_the_cpu_generates(self):
        # Latent attention with experts in groups; a delta net with experts and attention; an encoder with a decoder.
        for golden in ("architectures/deepseek-v3", "architectures/qwen3-next", "encoder_decoder/bart"):
            model = self.copy_of(golden)
            limits = ("--max-model-len", "64", "--disable-compile-cache")
            expected = self.generate(self.cpu_program, "--device", "cpu", *limits, model=model).stdout
            done = self.generate(serve_test.BINARY, "--device", "cuda", "--kv-cache-memory-bytes", "4M", *limits, model=model)
            self.assertEqual(done.stdout, expected, golden)
            self.assertIn("on Fake GPU", done.stderr)

    def packed_checkpoint(self, tools, name, method, pack):
        """The model with other tensors for the matrices of its layers: those of pack(module, rows)."""
        checkpoint, tensors = tools.Checkpoint(Path(serve_test.MODEL)), {}
        for tensor, entry in checkpoint.tensors.items():
            values, shape = list(checkpoint.floats(tensor)), entry["shape"]
            if ".layers." not in tensor or len(shape) != 2:
                tensors[tensor] = ("F32", shape, struct.pack(f"<{len(values)}f", *values))
                continue
            rows = [values[at : at + shape[1]] for at in range(0, len(values), shape[1])]
            tensors |= pack(tensor.removesuffix(".weight"), rows)
        quantization_test.MODEL = serve_test.MODEL
        writer = quantization_test.Quantization()
        writer.folder = self.folder
        return writer.write_folder(name, tensors, method)

    def gptq_checkpoint(self, tools):
        def pack(module, rows):
            codes, zeros, scales, _ = quantization_test.four_bits(rows)
            return quantization_test.gptq_tensors(module, codes, zeros, scales)

        method = {"bits": 4, "group_size": quantization_test.GROUP, "quant_method": "gptq", "desc_act": False}
        return self.packed_checkpoint(tools, "gptq", method, pack)

    def test_packed_checkpoints_generate_what_the_cpu_generates(self):
        sys.path.insert(0, str(SOURCE / "tools"))
        import convert_to_gguf

        gguf_test.SOURCE = SOURCE
        llama = self.folder / "llama"
        gguf_test.write_random_llama(llama)
        models = [self.gptq_checkpoint(convert_to_gguf)]
        for source, form in ((serve_test.MODEL, "q8_0"), (llama, "q4_k"), (llama, "q6_k")):
            models.append(convert_to_gguf.convert(Path(source), self.folder / f"{form}.gguf", form)[0])
        for model in models:
            expected = self.generate(self.cpu_program, "--device", "cpu", model=str(model)).stdout
            for mode in ("FULL_AND_PIECEWISE", "NONE"):
                done = self.generate(serve_test.BINARY, "--device", "cuda", "--kv-cache-memory-bytes", "4M", "--compilation-config",
                                     json.dumps({"cudagraph_mode": mode}), model=str(model))
                self.assertEqual(done.stdout, expected, model)
                self.assertIn("on Fake GPU", done.stderr)

    def test_long_prompts_are_multiplied_in_float8_where_the_checkpoint_and_the_gpu_allow_it(self):
        sys.path.insert(0, str(SOURCE / "tools"))
        import convert_to_gguf

        float8 = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True}
        models = []
        for name, inputs in (("w8a8", {**float8, "strategy": "token", "dynamic": True}), ("w8a16", None)):
            method = {"quant_method": "compressed-tensors", "format": "float-quantized",
                      "config_groups": {"all": {"weights": float8, "input_activations": inputs}}}
            models.append(self.packed_checkpoint(convert_to_gguf, name, method,
                                                 lambda module, rows: quantization_test.float8_tensors(module, rows, 1 << 20)[0]))
        w8a8, w8a16 = models
        bundled = serve_test.MODEL
        self.addCleanup(setattr, serve_test, "MODEL", bundled)
        limits = [option if option != "32" else "128" for option in LIMITS]
        question = {**STORY, "prompt": "One day, Lily went to the park with her mom. " * 7, "max_tokens": 1, "logprobs": 5}

        def likeliest(model, *options, **environment):
            serve_test.MODEL = str(model)
            server = serve_test.Server(*limits, "--device", "cuda", "--enforce-eager", "--kv-cache-memory-bytes", "4M", *options,
                                       **environment)
            self.addCleanup(server.stop, 9)
            status, answer = server.post("/v1/completions", question)
            self.assertEqual(status, 200, answer)
            self.assertGreater(answer["usage"]["prompt_tokens"], 64)
            self.assertEqual("has no float8 products" in server.text(), environment.get("REPRISE_FAKE_CAPABILITY") == "80")
            return answer["choices"][0]["logprobs"]["top_logprobs"][0]

        elements = likeliest(w8a16)

        def distance(model, *options, **environment):
            found = likeliest(model, *options, **environment)
            return max(abs(found[token] - value) for token, value in elements.items() if token in found)

        self.assertLess(distance(w8a8, "--batch-invariant"), 1e-4)
        self.assertLess(distance(w8a8, REPRISE_FAKE_CAPABILITY="80"), 1e-4)
        for capability in ("89", "90"):
            found = distance(w8a8, REPRISE_FAKE_CAPABILITY=capability)
            self.assertGreater(found, 1e-3)
            self.assertLess(found, 1)  # of a log-probability of one of the five likeliest tokens

    def test_an_adapter_answers_as_on_the_cpu(self):
        adapter = lora_serve_test.write_adapter(self.folder / "fox", seed=1)
        options = ("--enable-lora", "--lora-modules", f"fox={adapter}", "--lora", "fox")
        expected = self.generate(self.cpu_program, "--device", "cpu", *options).stdout
        self.assertNotEqual(expected, self.generate(self.cpu_program, "--device", "cpu").stdout)
        done = self.generate(serve_test.BINARY, "--device", "cuda", "--kv-cache-memory-bytes", "4M", *options)
        self.assertEqual(done.stdout, expected)

    def test_the_memory_of_a_model_with_states_and_attention_is_profiled(self):
        model = self.copy_of("architectures/bamba")
        limits = ("--max-model-len", "64", "--disable-compile-cache")
        expected = self.generate(self.cpu_program, "--device", "cpu", *limits, model=model).stdout
        self.assertEqual(self.generate(serve_test.BINARY, "--device", "cuda", *limits, model=model).stdout, expected)

    def test_serves_the_vectors_of_the_cpu(self):
        serve_test.MODEL, story_model = str(self.copy_of("pooling/bert-mean")), serve_test.MODEL
        self.addCleanup(setattr, serve_test, "MODEL", story_model)
        binary = serve_test.BINARY
        self.addCleanup(setattr, serve_test, "BINARY", binary)
        vectors = []
        for program, device in ((binary, "cuda"), (str(self.cpu_program), "cpu")):
            serve_test.BINARY = program
            server = serve_test.Server("--dtype", "float32", "--max-num-seqs", "2", "--max-num-batched-tokens", "64",
                                       "--max-model-len", "32", "--disable-compile-cache", "--kv-cache-memory-bytes", "4M",
                                       "--device", device)
            self.addCleanup(server.stop, 9)
            status, answer = server.post("/v1/embeddings", {"input": ["abc", "Zebras"]})
            self.assertEqual(status, 200, answer)
            vectors.append([x for item in answer["data"] for x in item["embedding"]])
        self.assertEqual(len(vectors[0]), len(vectors[1]))
        self.assertLess(max(abs(a - b) for a, b in zip(*vectors)), 1e-5)

    def test_a_gpu_and_a_cpu_exchange_prompts(self):
        expected = self.generate(self.cpu_program, "--device", "cpu").stdout

        def start(device, role, **more):
            config = {"kv_connector": "TcpConnector", "kv_role": role, **more}
            server = serve_test.Server(*LIMITS, "--device", device, "--kv-cache-memory-bytes", "4M", "--kv-transfer-config",
                                       json.dumps(config), REPRISE_KV_TRANSFER_SECRET="a secret of sixteen bytes or more")
            self.addCleanup(server.stop, 9)
            return server

        for first, second in (("cuda", "cpu"), ("cpu", "cuda")):
            with self.subTest(first=first, second=second), socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
                free.close()
                producer = start(first, "kv_producer", kv_port=port)
                consumer = start(second, "kv_consumer", kv_connector_extra_config={"peers": [f"127.0.0.1:{port}"]})
                asked = {"do_remote_decode": True, "do_remote_prefill": False}
                status, answer = producer.post("/v1/completions", {**STORY, "max_tokens": 1, "kv_transfer_params": asked})
                self.assertEqual(status, 200, answer)
                text = self.complete(consumer, kv_transfer_params=answer["kv_transfer_params"])
                self.assertEqual("Once upon a time" + text, expected.rstrip("\n"))

    def test_the_tokens_of_experts_are_counted_as_on_the_cpu(self):
        serve_test.MODEL, story_model = str(self.copy_of("architectures/qwen3-moe")), serve_test.MODEL
        self.addCleanup(setattr, serve_test, "MODEL", story_model)
        binary = serve_test.BINARY
        self.addCleanup(setattr, serve_test, "BINARY", binary)
        counts = []
        for program, device in ((binary, "cuda"), (str(self.cpu_program), "cpu")):
            serve_test.BINARY = program
            server = serve_test.Server("--dtype", "float32", "--max-num-seqs", "2", "--max-num-batched-tokens", "32",
                                       "--max-model-len", "32", "--disable-compile-cache", "--kv-cache-memory-bytes", "4M",
                                       "--expert-counters", "--device", device)
            self.addCleanup(server.stop, 9)
            self.complete(server, prompt="Zebras run", max_tokens=4, ignore_eos=True)
            _, metrics = server.request("GET", "/metrics")
            counts.append(sorted(re.findall(r"^reprise:expert_tokens_total\{.*$", metrics.decode(), re.M)))
        self.assertTrue(counts[0])
        self.assertEqual(*counts)

    def test_the_cache_takes_its_part_of_the_devices_memory(self):
        def start(part):
            return subprocess.run([serve_test.BINARY, "generate", serve_test.MODEL, "--prompt", "a", "--device", "cuda",
                                   "--gpu-memory-utilization", part, *LIMITS], capture_output=True, text=True,
                                  timeout=serve_test.TIMEOUT)

        done = start("0.0000001")  # too little for the weights
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("memory", done.stderr)
        done = start("1.5")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--gpu-memory-utilization", done.stderr)

    def test_sleeps_and_replays_the_same_graphs_afterwards(self):
        server = self.serve("--dev")
        captured = server.metric("reprise:cudagraph_captured", 'mode="FULL"')
        expected = self.complete(server)
        for level in (1, 2):
            self.assertEqual(server.request("POST", f"/sleep?level={level}")[0].status, 200)
            self.assertTrue(json.loads(server.request("GET", "/is_sleeping")[1])["is_sleeping"])
            self.assertEqual(server.request("POST", "/wake_up")[0].status, 200)
            self.assertEqual(self.complete(server), expected)
        self.assertEqual(server.metric("reprise:cudagraph_captured", 'mode="FULL"'), captured)
        self.assertEqual(server.metric("reprise:cudagraph_retired"), 0)

    def test_a_lost_device_ends_requests_and_then_the_server(self):
        for environment, survives in (({}, False), ({"VLLM_KEEP_ALIVE_ON_ENGINE_DEATH": "1"}, True)):
            lost = self.folder / "device-is-lost"
            lost.unlink(missing_ok=True)
            self.addCleanup(lost.unlink, missing_ok=True)
            server = self.serve(**environment)
            self.complete(server)
            lost.touch()
            status, answer = server.post("/v1/completions", {**STORY, "max_tokens": 100, "ignore_eos": True})
            self.assertEqual(status, 500, answer)
            self.assertIn("the GPU's context is lost", answer["error"]["message"])
            server.wait_until(lambda: "the engine is dead" in server.text())  # a thread writes the log
            if survives:
                self.assertEqual(server.request("GET", "/health")[0].status, 503)
                self.assertEqual(server.post("/v1/completions", STORY)[0], 503)
                self.assertEqual(server.stop(), 0)
            else:
                self.assertEqual(server.process.wait(serve_test.TIMEOUT), 1)


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL, PLUGIN = sys.argv[1:4]
    serve_test.TIMEOUT = 240
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
