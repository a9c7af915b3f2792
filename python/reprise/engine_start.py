"""Starts an engine, and tells the log what it decided."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from reprise import _core
from reprise.cudagraph_mode import CUDAGraphMode
from reprise.engine_args import EngineArgs

_LOG = logging.getLogger("reprise")
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def start_engine(args: EngineArgs, on_progress: Callable[[str, int, int], None] | None = None) -> _core.Engine:
    """Raises ValueError with the reason for options that cannot work."""
    _set_up_log()
    engine = _core.Engine(args.for_engine(), on_progress)
    report = startup_report(engine)
    for warning in report["warnings"]:
        _LOG.warning(warning)
    _LOG.info(
        "%s: %.1f M parameters (%s) on %s; kernels: %s",
        os.fspath(args.model), report["num_parameters"] / 1e6, report["dtype"], report["device"], report["cpu_isa"],
    )
    _LOG.info(
        "cudagraph_mode %s; KV cache %d blocks of %d tokens, max_model_len %d; ready in %.3f s",
        report["cudagraph_mode"], report["num_kv_blocks"], report["kv_block_size"], report["max_model_len"],
        report["total_seconds"],
    )
    return engine


def startup_report(engine: _core.Engine) -> dict[str, Any]:
    """Decisions and measurements of the start; times in seconds."""
    report = engine.startup_report()
    return report | {"cudagraph_mode": CUDAGraphMode[report["cudagraph_mode"]]}


def _set_up_log() -> None:
    """VLLM_LOGGING_LEVEL says how much is written to stderr: INFO as in vLLM, unless the program has set up logging itself."""
    level = os.environ.get("VLLM_LOGGING_LEVEL") or "INFO"
    if level.upper() not in _LEVELS:
        raise ValueError(f"VLLM_LOGGING_LEVEL: '{level}' is not one of {', '.join(_LEVELS)}")
    if os.environ.get("VLLM_CONFIGURE_LOGGING") == "0" or logging.getLogger().handlers:
        return
    _LOG.setLevel(level.upper())
    if not _LOG.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(levelname)s %(asctime)s [reprise] %(message)s", "%m-%d %H:%M:%S"))
        _LOG.addHandler(handler)
        _LOG.propagate = False
