"""How bench_peers.py runs each of the other engines: one function per engine, each in a process of its own.

A function loads PATH and returns measure_once(length), which reads --batch prompts of `length` tokens and then gives
--decode tokens of each, and returns the seconds of both. --prompt has all lengths. The engines get the settings with
which they were fastest.
"""

import itertools
import os
import time

PROMPT_TOKEN = 100  # any token; the time does not depend on it
WARMUP_TOKENS = 8


def timed(call) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def longest_request(arguments) -> int:
    """The tokens of a request, with some room."""
    return max(arguments.prompt) + arguments.decode + 64


def prompts_of(arguments, length: int, number: int = 0) -> list[list[int]]:
    """The prompts of one measurement. No two begin alike, so that no engine finds one in its prefix cache."""
    first = [PROMPT_TOKEN + (number * arguments.batch + row) % 900 for row in range(arguments.batch)]
    return [[token] + [PROMPT_TOKEN + i % 900 for i in range(1, length)] for token in first]


class LlamaContext:
    """A model in llama.cpp's C interface, which ik_llama.cpp shares. `api` is the module with its functions."""

    def __init__(self, api, path: str, arguments, set_model, set_context):
        self.api = api
        api.llama_backend_init()
        model = api.llama_model_default_params()
        set_model(model)
        loaded = api.llama_model_load_from_file(path.encode(), model)
        if not loaded:
            raise RuntimeError(f"{path} could not be loaded")
        context = api.llama_context_default_params()
        context.n_ctx = arguments.batch * longest_request(arguments)
        context.n_batch = context.n_ctx
        context.n_ubatch = 512
        context.n_seq_max = arguments.batch
        context.n_threads = context.n_threads_batch = arguments.threads
        set_context(context)
        self.context = api.llama_init_from_model(loaded, context)
        if not self.context:
            raise RuntimeError("its context could not be made")

    def run(self, rows: list[tuple[int, int, int, bool]]) -> None:
        """Runs rows of (token, position, sequence, whether its logits are wanted)."""
        batch = self.api.llama_batch_init(len(rows), 0, 1)
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.logits[i] = token, position, wanted
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
        status = self.api.llama_decode(self.context, batch)
        self.api.llama_batch_free(batch)
        if status != 0:
            raise RuntimeError(f"llama_decode returned {status}")
        self.api.llama_get_logits_ith(self.context, len(rows) - 1)


def llama_measurement(model: LlamaContext, clear, arguments):
    def run_prompts(prompts: list[list[int]]) -> None:
        for sequence, prompt in enumerate(prompts):
            last = len(prompt) - 1
            model.run([(token, i, sequence, i == last) for i, token in enumerate(prompt)])

    def run_step(position: int) -> None:
        model.run([(PROMPT_TOKEN, position, sequence, True) for sequence in range(arguments.batch)])

    model.run([(token, i, 0, i == 0) for i, token in enumerate(prompts_of(arguments, WARMUP_TOKENS)[0])])

    def measure_once(length: int) -> tuple[float, float]:
        clear()
        prompts = prompts_of(arguments, length)
        prefill = timed(lambda: run_prompts(prompts))
        return prefill, timed(lambda: [run_step(length + i) for i in range(arguments.decode)])

    return measure_once


def load_llama_cpp(path: str, arguments):
    from llama_cpp import llama_cpp as api

    def set_context(context) -> None:
        context.kv_unified = False  # faster where sequences share no prefix, according to llama.h
        context.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_ENABLED  # "auto" chooses the slower way on CPUs

    def set_model(model) -> None:
        model.use_mmap = False  # reading through a mapping costs 12 % of decoding

    model = LlamaContext(api, path, arguments, set_model, set_context)
    return llama_measurement(model, lambda: api.llama_memory_clear(api.llama_get_memory(model.context), True), arguments)


def load_ik_llama_cpp(path: str, arguments):
    from ik_llama_cpp import _ctypes_api as api

    def set_model(model) -> None:
        model.repack_tensors = arguments.ik_repack

    def set_context(context) -> None:
        context.flash_attn = arguments.ik_flash_attention

    model = LlamaContext(api, path, arguments, set_model, set_context)
    return llama_measurement(model, lambda: api.llama_kv_cache_clear(model.context), arguments)


def load_openvino(path: str, arguments):
    import numpy
    import openvino
    import openvino_genai

    pipeline = openvino_genai.LLMPipeline(path, "CPU", INFERENCE_NUM_THREADS=arguments.threads)
    numbers = itertools.count()

    def generate(length: int, tokens: int):
        ids = numpy.array(prompts_of(arguments, length, next(numbers)), dtype=numpy.int64)
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids)))
        config = openvino_genai.GenerationConfig(max_new_tokens=tokens, ignore_eos=True, do_sample=False)
        return pipeline.generate(inputs, config).perf_metrics

    generate(WARMUP_TOKENS, 2)

    def measure_once(length: int) -> tuple[float, float]:
        metrics = generate(length, arguments.decode + 1)
        prefill = metrics.get_ttft().mean / 1e3
        return prefill, metrics.get_generate_duration().mean / 1e3 - prefill

    return measure_once


def load_vllm(path: str, arguments):
    # One process, so that the memory of the whole engine is measured.
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"0-{arguments.threads - 1}")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    import vllm

    room = longest_request(arguments)
    model = vllm.LLM(path, skip_tokenizer_init=True, max_model_len=room, enable_prefix_caching=False,
                     max_num_seqs=max(16, arguments.batch), max_num_batched_tokens=max(2048, room))

    def generate(length: int, tokens: int) -> float:
        prompts = [{"prompt_token_ids": ids} for ids in prompts_of(arguments, length)]
        sampling = vllm.SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        return timed(lambda: model.generate(prompts, sampling, use_tqdm=False))

    generate(WARMUP_TOKENS, 2)

    def measure_once(length: int) -> tuple[float, float]:
        prefill = generate(length, 1)
        return prefill, generate(length, arguments.decode + 1) - prefill

    return measure_once


LOAD = {"llama.cpp": load_llama_cpp, "ik_llama.cpp": load_ik_llama_cpp, "openvino": load_openvino, "vllm": load_vllm}
