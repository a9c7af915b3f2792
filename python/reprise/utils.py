"""What scripts take from `vllm.utils`."""

from __future__ import annotations

import uuid
from typing import Any


def random_uuid() -> str:
    """A name for a request that no other has."""
    return uuid.uuid4().hex


def direct_register_custom_op(*_: Any, **__: Any) -> None:
    """Raises NotImplementedError: kernels written in Python do not run in this engine."""
    raise NotImplementedError(
        "custom ops of Python do not run in this engine, which executes no Python in a step. Write the op in C++ and "
        'load it with LLM(..., extension=["my_extension.so"]) or `--extension` (docs/howto/extend.md)'
    )
