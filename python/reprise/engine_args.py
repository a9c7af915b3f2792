"""The options of an engine's start."""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import warnings
from typing import Any

from reprise import _core
from reprise.config import CompilationConfig, config_json

# vLLM's arguments that the engine does not have, with the values that ask for nothing. Any other
# value is refused, because it would change what the engine does.
_NOT_THERE: dict[str, tuple[Any, ...]] = {
    "allowed_local_media_path": ("",),
    "code_revision": (None,),
    "config_format": ("auto", "hf"),
    "convert": ("auto", "none"),
    "cpu_offload_gb": (0,),
    "data_parallel_size": (1,),
    "distributed_executor_backend": (None, "uni", "mp"),
    "enable_expert_parallel": (False,),
    "enable_prompt_embeds": (False,),
    "hf_config_path": (None,),
    "hf_token": (None, False),
    "kv_transfer_config": (None,),
    "limit_mm_per_prompt": (None, {}),
    "logits_processors": (None, []),
    "mm_processor_kwargs": (None, {}),
    "model_impl": ("auto",),
    "pipeline_parallel_size": (1,),
    "pooler_config": (None,),
    "skip_tokenizer_init": (False,),
    "structured_outputs_config": (None, {}),
    "swap_space": (0, 4),
    "tensor_parallel_size": (1,),
    "tokenizer_mode": ("auto", "hf"),
    "tokenizer_revision": (None, "main"),
}
# The end of the message that refuses an argument: what to do instead.
_INSTEAD = {
    "data_parallel_size": "; `reprise serve MODEL --data-parallel-size N` does it, and its API takes the requests",
    "kv_transfer_config": "; `reprise serve MODEL --kv-transfer-config JSON` does it",
    "limit_mm_per_prompt": ": models read text only",
    "logits_processors": ": no Python runs in a step; SamplingParams has logit_bias, allowed_token_ids and bad_words",
    "tensor_parallel_size": "; `reprise serve MODEL -tp N` does it, and its API takes the requests",
}
# Values of vLLM's older argument `task`, and the `runner` that each means.
_RUNNERS = {
    "auto": "auto", "generate": "generate", "pooling": "pooling", "embed": "pooling", "embedding": "pooling",
    "classify": "pooling", "score": "pooling",
}
# vLLM's arguments that change no answer of this engine, whatever their value.
_WITHOUT_EFFECT = frozenset(
    {
        "disable_async_output_proc", "disable_custom_all_reduce", "disable_log_stats", "enable_sleep_mode",
        "max_seq_len_to_capture", "trust_remote_code",
    }
)


@dataclasses.dataclass
class EngineArgs:
    """Names and defaults are vLLM's. None leaves the value to the model or the machine."""

    model: str | os.PathLike[str]  # a folder, a .gguf file, or a Hub name in the local cache
    download_dir: str | os.PathLike[str] | None = None  # that cache; None: as huggingface_hub
    revision: str | None = None  # of a model in the cache: a branch, a tag or a commit; None: main
    extension: list[str | os.PathLike[str]] = dataclasses.field(default_factory=list)  # plug-ins with ops, passes, compilers
    runner: str = "auto"  # generate, pooling (vectors of texts); auto: as the model's files say
    tokenizer: str | os.PathLike[str] | None = None
    hf_overrides: dict[str, Any] | None = None  # members that replace those of config.json
    generation_config: str = "auto"  # auto, vllm, or a folder with generation_config.json
    override_generation_config: dict[str, Any] | None = None
    chat_template: str | None = None  # a file or the template itself
    chat_template_content_format: str = "auto"  # or string, openai
    device: str = "auto"  # cpu, cuda
    gpu_memory_utilization: float | None = None  # 0.9; of a CPU: of its memory limit
    dtype: str = "auto"
    seed: int = 0
    max_model_len: int | None = None
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0  # the most tokens of one prompt in a step; 0: no limit
    scheduling_policy: str = "fcfs"  # or priority
    speculative_config: dict[str, Any] | None = None  # method ngram, num_speculative_tokens, ...
    async_scheduling: bool = False
    enable_prefix_caching: bool | None = None  # None: on, except for models without attention
    mamba_cache_mode: str = ""  # align, none
    prefix_cache_retention_interval: int = 0  # keep states of recurrent layers every so many tokens
    disable_cascade_attn: bool = False
    expert_counters: bool = False  # count the tokens of each expert, for /metrics
    block_size: int = 16
    kv_cache_dtype: str = "auto"  # fp8, fp8_e5m2, int8_per_token_head, fp8_per_token_head
    kv_cache_memory_bytes: int | None = None
    num_gpu_blocks_override: int | None = None  # blocks of the KV cache, on any device
    enable_lora: bool = False  # requests may bring a LoRARequest
    max_loras: int = 1  # different adapters in one step
    max_lora_rank: int = 16
    max_cpu_loras: int | None = None  # adapters in host memory; None: max_loras
    specialize_active_lora: bool = False
    max_logprobs: int = 20  # that a request may ask for; -1: the whole vocabulary
    load_format: str = "auto"
    quantization: str | None = None  # int8, int4, q8_0 or fp8: quantised while they are loaded
    attention_backend: str = dataclasses.field(default_factory=lambda: os.environ.get("VLLM_ATTENTION_BACKEND") or "auto")
    # for FLASH_ATTN: 2 or 3
    flash_attn_version: int = dataclasses.field(default_factory=lambda: int(os.environ.get("VLLM_FLASH_ATTN_VERSION") or 0))
    flashinfer_prefill: bool = False  # prompts by FlashInfer's kernels, on GPUs of compute capability 9.0
    enforce_eager: bool = False
    verify_graphs: str = "capture"  # or off, strict: what is proved about each graph at the start
    replay_log: str | os.PathLike[str] = ""  # a file for `reprise replay`
    optimization_level: int = 2
    compilation_config: CompilationConfig | dict[str, Any] | int | None = None
    compile_cache_root: str | os.PathLike[str] = ""
    disable_compile_cache: bool = False
    tune: bool | None = None  # True: kernels of products are measured once, on GPUs; False: stored choices are not used
    num_threads: int = 0
    cpu_isa: str = "auto"
    batch_invariant: bool = dataclasses.field(default_factory=lambda: os.environ.get("VLLM_BATCH_INVARIANT") != "0")

    def for_engine(self) -> _core.EngineArgs:
        args = _core.EngineArgs()
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "compilation_config":
                value = config_json(value)
            elif field.name in ("hf_overrides", "override_generation_config", "speculative_config"):
                try:
                    value = json.dumps(value or {})
                except TypeError as error:
                    raise ValueError(f"{field.name}: {error}") from error
            elif field.name == "quantization":
                value = value or "none"
            elif field.name == "download_dir":
                value = value or ""
            elif field.name == "revision":
                value = value or "main"
            elif isinstance(value, os.PathLike):
                value = os.fspath(value)
            try:
                setattr(args, field.name, value)
            except TypeError as error:
                raise ValueError(f"{field.name}: {value!r} is of type {type(value).__name__}") from error
        return args

    @classmethod
    def from_arguments(cls, model: str | os.PathLike[str], arguments: dict[str, Any]) -> EngineArgs:
        """Reads keyword arguments by vLLM's names.

        An argument without an effect on this engine gives a warning. Raises TypeError for an
        unknown name, with the nearest known one, and ValueError for an argument of vLLM that would
        change what the engine does but that this engine does not have.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        ours = {}
        for name, value in arguments.items():
            if name in known:
                ours[name] = value
            elif name == "task":
                if value not in _RUNNERS:
                    raise ValueError(f"task={json.dumps(value, default=str)} is not one of {', '.join(_RUNNERS)}")
                ours.setdefault("runner", _RUNNERS[value])
            elif name in _WITHOUT_EFFECT:
                warnings.warn(f"{name} has no effect on this engine", stacklevel=4)
            elif name in _NOT_THERE:
                if value not in _NOT_THERE[name]:
                    hint = _INSTEAD.get(name, "")
                    raise ValueError(f"{name}={json.dumps(value, default=str)} is not supported{hint}")
            else:
                near = difflib.get_close_matches(name, known | set(_NOT_THERE), n=1)
                hint = f"; did you mean '{near[0]}'?" if near else ""
                raise TypeError(f"LLM() has no argument '{name}'{hint}")
        return cls(model=model, **ours)
