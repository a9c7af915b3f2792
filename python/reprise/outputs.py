"""Answers, with the names of `vllm.outputs`."""

from __future__ import annotations

import dataclasses
from typing import Generic, TypeVar

from reprise.lora import LoRARequest


@dataclasses.dataclass
class Logprob:
    """The log-probability of a token. `rank` 1 is the most likely token."""

    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


# Token id -> log-probability, for the token at this position and for the likeliest tokens.
PositionLogprobs = dict[int, Logprob]


@dataclasses.dataclass
class CompletionOutput:
    """One answer to a prompt."""

    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: float | None = None
    logprobs: list[PositionLogprobs] | None = None
    finish_reason: str | None = None  # "stop", "length", "abort"; None until the answer ends
    stop_reason: int | str | None = None  # the stop token or string; None for EOS

    def finished(self) -> bool:
        return self.finish_reason is not None


@dataclasses.dataclass
class RequestMetrics:
    """Times of a request's events, in seconds of time.monotonic()."""

    arrival_time: float
    first_token_time: float | None = None
    last_token_time: float | None = None
    finished_time: float | None = None


@dataclasses.dataclass
class RequestOutput:
    """A prompt and its answers."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    prompt_logprobs: list[PositionLogprobs | None] | None
    outputs: list[CompletionOutput]
    finished: bool
    metrics: RequestMetrics | None = None
    lora_request: LoRARequest | None = None
    num_cached_tokens: int | None = None


@dataclasses.dataclass
class PoolingOutput:
    """The numbers of a text: a vector, or scores of labels. A list, where vLLM has a tensor: torch.tensor(data)."""

    data: list[float]


@dataclasses.dataclass
class EmbeddingOutput:
    """The vector of a text."""

    embedding: list[float]

    @property
    def hidden_size(self) -> int:
        return len(self.embedding)


@dataclasses.dataclass
class ClassificationOutput:
    """How probable each label is, in the order of the model's labels."""

    probs: list[float]

    @property
    def num_classes(self) -> int:
        return len(self.probs)


@dataclasses.dataclass
class ScoringOutput:
    """How similar two texts are."""

    score: float


_Output = TypeVar("_Output")


@dataclasses.dataclass
class PoolingRequestOutput(Generic[_Output]):
    """A text and what the model made of it."""

    request_id: str
    outputs: _Output
    prompt_token_ids: list[int]
    finished: bool
    num_cached_tokens: int = 0



class EmbeddingRequestOutput(PoolingRequestOutput[EmbeddingOutput]):
    """An answer of LLM.embed()."""


class ClassificationRequestOutput(PoolingRequestOutput[ClassificationOutput]):
    """An answer of LLM.classify()."""


class ScoringRequestOutput(PoolingRequestOutput[ScoringOutput]):
    """An answer of LLM.score()."""
