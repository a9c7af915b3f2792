from reprise.async_llm import AsyncEngineArgs
from reprise.engine_args import EngineArgs

__all__ = ["AsyncEngineArgs", "EngineArgs"]
