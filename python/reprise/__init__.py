"""Reprise: a native LLM engine with CUDA-graph capture, dispatch and replay.

The names are vLLM's: a script that uses `LLM`, `SamplingParams` or `AsyncLLM` only needs `import reprise as vllm`.
"""

from reprise.async_llm import AsyncEngineArgs, AsyncLLM, AsyncLLMEngine
from reprise.beam_search import BeamSearchOutput, BeamSearchSequence
from reprise.config import CompilationConfig, CompilationLevel, CompilationMode, CUDAGraphMode
from reprise.engine_args import EngineArgs
from reprise.llm import LLM
from reprise.lora import LoRARequest
from reprise.outputs import CompletionOutput, Logprob, RequestMetrics, RequestOutput
from reprise.prompts import TextPrompt, TokensPrompt
from reprise.sampling_params import BeamSearchParams, RequestOutputKind, SamplingParams
from reprise.structured_outputs import GuidedDecodingParams, StructuredOutputsParams
from reprise.tokenizer import Tokenizer

__version__ = "0.1.0"

__all__ = [
    "AsyncEngineArgs",
    "AsyncLLM",
    "AsyncLLMEngine",
    "BeamSearchOutput",
    "BeamSearchParams",
    "BeamSearchSequence",
    "CUDAGraphMode",
    "CompilationConfig",
    "CompilationLevel",
    "CompilationMode",
    "CompletionOutput",
    "EngineArgs",
    "GuidedDecodingParams",
    "LLM",
    "LoRARequest",
    "Logprob",
    "RequestMetrics",
    "RequestOutput",
    "RequestOutputKind",
    "SamplingParams",
    "StructuredOutputsParams",
    "TextPrompt",
    "TokensPrompt",
    "Tokenizer",
]
