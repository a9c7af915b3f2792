"""How a model is compiled and captured, with the names of `vllm.config`."""

from __future__ import annotations

import dataclasses
import enum
import json
import warnings
from typing import Any

from reprise import _core
from reprise.cudagraph_mode import CUDAGraphMode

__all__ = ["CUDAGraphMode", "CompilationConfig", "CompilationLevel", "CompilationMode"]


class CompilationMode(enum.IntEnum):
    """The compile level: a value for `level` and `mode` of a CompilationConfig."""

    NONE = 0
    STOCK_TORCH_COMPILE = 1
    DYNAMO_TRACE_ONCE = 2
    VLLM_COMPILE = 3


class CompilationLevel(enum.IntEnum):
    """The older names of CompilationMode."""

    NO_COMPILATION = 0
    DYNAMO_AS_IS = 1
    DYNAMO_ONCE = 2
    PIECEWISE = 3


@dataclasses.dataclass
class CompilationConfig:
    """Options for compiling and capturing. None leaves the choice to the engine.

    Raises ValueError for a value that every engine would refuse. `extra` holds more fields of the
    configuration by name.
    """

    mode: CompilationMode | int | str | None = None
    level: CompilationLevel | CompilationMode | int | str | None = None  # the older name of `mode`
    cudagraph_mode: CUDAGraphMode | str | None = None
    cudagraph_capture_sizes: list[int] | None = None
    max_cudagraph_capture_size: int | None = None
    capture_size_rule: str | None = None  # reprise (default), measured, vllm, vllm-v1, atom
    cudagraph_num_of_warmups: int | None = None
    cudagraph_copy_inputs: bool | None = None
    cuda_graph_sizes: list[int] | None = None  # older: one value is the largest size, several are the sizes
    use_cudagraph: bool | None = None  # older: False is mode NONE
    full_cuda_graph: bool | None = None  # older: True is mode FULL
    splitting_ops: list[str] | None = None
    compile_sizes: list[int | str] | None = None
    compile_ranges_endpoints: list[int] | None = None
    custom_ops: list[str] | None = None
    backend: str | None = None
    use_inductor: bool | None = None
    pass_config: dict[str, Any] | None = None
    debug_dump_path: str | None = None
    cache_dir: str | None = None
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for warning in _core.check_compilation_config(self.to_json()):
            warnings.warn(warning, stacklevel=3)

    def to_json(self) -> str:
        fields = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "extra" and getattr(self, field.name) is not None
        }
        return config_json(fields | self.extra)


def config_json(config: CompilationConfig | dict[str, Any] | int | None) -> str:
    """The JSON text that the engine reads, with enumerations as their names."""
    if config is None:
        return "{}"
    if isinstance(config, CompilationConfig):
        return config.to_json()
    return json.dumps(config, default=_enum_name)


def _enum_name(value: object) -> str:
    if isinstance(value, CUDAGraphMode):
        return value.name
    raise TypeError(f"compilation_config: {value!r} cannot be written as JSON")
