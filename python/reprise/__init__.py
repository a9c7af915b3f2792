"""Reprise: a native LLM engine with CUDA-graph capture, dispatch and replay.

The names are vLLM's: a script that uses `LLM`, `SamplingParams` or `AsyncLLM` only needs `import reprise as vllm`.
"""

from reprise.async_llm import AsyncEngineArgs, AsyncLLM, AsyncLLMEngine
from reprise.beam_search import BeamSearchOutput, BeamSearchSequence
from reprise.config import CompilationConfig, CompilationLevel, CompilationMode, CUDAGraphMode
from reprise.engine_args import EngineArgs
from reprise.inputs import PromptType
from reprise.llm import LLM
from reprise.llm_engine import LLMEngine
from reprise.lora import LoRARequest
from reprise.outputs import (
    ClassificationOutput,
    ClassificationRequestOutput,
    CompletionOutput,
    EmbeddingOutput,
    EmbeddingRequestOutput,
    Logprob,
    PoolingOutput,
    PoolingRequestOutput,
    RequestMetrics,
    RequestOutput,
    ScoringOutput,
    ScoringRequestOutput,
)
from reprise.pooling_params import PoolingParams
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
    "ClassificationOutput",
    "ClassificationRequestOutput",
    "CompilationConfig",
    "CompilationLevel",
    "CompilationMode",
    "CompletionOutput",
    "EmbeddingOutput",
    "EmbeddingRequestOutput",
    "EngineArgs",
    "GuidedDecodingParams",
    "LLM",
    "LLMEngine",
    "LoRARequest",
    "Logprob",
    "PoolingOutput",
    "PoolingParams",
    "PoolingRequestOutput",
    "PromptType",
    "RequestMetrics",
    "RequestOutput",
    "RequestOutputKind",
    "SamplingParams",
    "ScoringOutput",
    "ScoringRequestOutput",
    "StructuredOutputsParams",
    "TextPrompt",
    "Tokenizer",
    "TokensPrompt",
]
