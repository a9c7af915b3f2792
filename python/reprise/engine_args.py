"""What can be asked of an engine when it starts."""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import warnings
from typing import Any

from reprise import _core
from reprise.config import CompilationConfig, config_json

# vLLM's arguments that change nothing here when they have these values.
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "tensor_parallel_size": (1,),
    "pipeline_parallel_size": (1,),
    "data_parallel_size": (1,),
    "trust_remote_code": (True, False),
    "disable_log_stats": (True, False),
    "tokenizer_mode": ("auto",),
    "skip_tokenizer_init": (False,),
    "distributed_executor_backend": (None, "uni", "mp"),
    "device": ("auto", "cpu"),
    "enable_lora": (False,),
}


@dataclasses.dataclass
class EngineArgs:
    """Names and defaults are vLLM's; None leaves a value to the model or the machine."""

    model: str | os.PathLike[str]  # a folder in the Hugging Face layout
    tokenizer: str | os.PathLike[str] | None = None
    dtype: str = "auto"
    seed: int = 0
    max_model_len: int | None = None
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    enable_chunked_prefill: bool = True
    block_size: int = 16
    kv_cache_memory_bytes: int | None = None
    load_format: str = "auto"
    quantization: str | None = None  # int8, int4 or q8_0: quantised while they are loaded
    attention_backend: str = dataclasses.field(default_factory=lambda: os.environ.get("VLLM_ATTENTION_BACKEND") or "auto")
    flash_attn_version: int = 0  # of FLASH_ATTN: 2 or 3
    enforce_eager: bool = False
    optimization_level: int = 2
    compilation_config: CompilationConfig | dict[str, Any] | int | None = None
    compile_cache_root: str | os.PathLike[str] = ""
    disable_compile_cache: bool = False
    num_threads: int = 0
    cpu_isa: str = "auto"

    def for_engine(self) -> _core.EngineArgs:
        args = _core.EngineArgs()
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "compilation_config":
                value = config_json(value)
            elif field.name == "quantization":
                value = value or "none"
            elif isinstance(value, os.PathLike):
                value = os.fspath(value)
            try:
                setattr(args, field.name, value)
            except TypeError as error:
                raise ValueError(f"{field.name}: {value!r} is of type {type(value).__name__}") from error
        return args

    @classmethod
    def from_arguments(cls, model: str | os.PathLike[str], arguments: dict[str, Any]) -> EngineArgs:
        """Of keyword arguments by vLLM's names. Those without effect here are warned of once.

        Raises TypeError for an unknown name (with the nearest one) and ValueError for one of
        vLLM's that would change what the engine does and that it does not have.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        ours = {}
        for name, value in arguments.items():
            if name in known:
                ours[name] = value
            elif name == "gpu_memory_utilization":
                warnings.warn("gpu_memory_utilization has no effect on a CPU; see kv_cache_memory_bytes", stacklevel=4)
            elif name in _WITHOUT_EFFECT:
                if value not in _WITHOUT_EFFECT[name]:
                    raise ValueError(f"{name}={json.dumps(value, default=str)} is not supported")
            else:
                near = difflib.get_close_matches(name, known | set(_WITHOUT_EFFECT), n=1)
                hint = f"; did you mean '{near[0]}'?" if near else ""
                raise TypeError(f"LLM() has no argument '{name}'{hint}")
        return cls(model=model, **ours)
