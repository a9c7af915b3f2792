"""How tokens are chosen: vLLM's `SamplingParams`, field by field."""

from __future__ import annotations

import copy
import dataclasses
import enum
import warnings
from typing import Any

from reprise import _core
from reprise.structured_outputs import GuidedDecodingParams as GuidedDecodingParams
from reprise.structured_outputs import StructuredOutputsParams

# Fields with the same name in the engine.
_ENGINE_FIELDS = (
    "temperature",
    "top_p",
    "min_p",
    "seed",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "max_tokens",
    "min_tokens",
    "ignore_eos",
    "include_stop_str_in_output",
    "skip_special_tokens",
    "logprobs",
    "prompt_logprobs",
)


class RequestOutputKind(enum.Enum):
    """The outputs that an AsyncLLM yields: the whole answer so far, only the new part, or only the end result."""

    CUMULATIVE = 0
    DELTA = 1
    FINAL_ONLY = 2


@dataclasses.dataclass
class SamplingParams:
    """Names, defaults and meaning are vLLM's. Raises ValueError with the name of a bad field."""

    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logprob_token_ids: list[int] | None = None
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    output_kind: RequestOutputKind = RequestOutputKind.CUMULATIVE
    logit_bias: dict[int, float] | None = None
    allowed_token_ids: list[int] | None = None
    bad_words: list[str] | None = None
    extra_args: dict[str, Any] | None = None
    structured_outputs: StructuredOutputsParams | None = None
    guided_decoding: StructuredOutputsParams | None = None  # the older name of structured_outputs

    def __post_init__(self) -> None:
        if self.guided_decoding is not None:
            if self.structured_outputs is not None:
                raise ValueError("guided_decoding is the former name of structured_outputs; give one")
            self.structured_outputs, self.guided_decoding = self.guided_decoding, None
        if self.logprob_token_ids and self.logprobs is None:
            self.logprobs = 0
        if self.seed == -1:  # as in vLLM: a new seed for each request
            self.seed = None
        if self.extra_args:
            warnings.warn("extra_args has no effect: no extension of the engine reads it", stacklevel=3)
        if isinstance(self.stop, str):
            self.stop = [self.stop]
        if not isinstance(self.n, int) or not 1 <= self.n <= 256:
            raise ValueError(f"n: expected 1 to 256, got {self.n!r}")
        for choice in self.choices():
            choice.validate()

    def clone(self) -> SamplingParams:
        return copy.deepcopy(self)

    def choices(self) -> list[_core.SamplingParams]:
        """The engine's parameters for each of the `n` answers. With a seed, each gets its own seed."""
        return [self._choice(index) for index in range(self.n)]

    def _choice(self, index: int) -> _core.SamplingParams:
        params = _core.SamplingParams()
        for field in _ENGINE_FIELDS:
            value = getattr(self, field)
            try:
                setattr(params, field, value)
            except TypeError as error:
                raise ValueError(f"{field}: {value!r} is of type {type(value).__name__}") from error
        params.top_k = max(self.top_k, 0) if self.top_k == -1 else self.top_k
        if self.seed is not None:
            params.seed = self.seed + index
        params.stop = list(self.stop or [])
        params.stop_token_ids = list(self.stop_token_ids or [])
        params.logprob_token_ids = list(self.logprob_token_ids or [])
        params.logit_bias = [(int(token), float(bias)) for token, bias in (self.logit_bias or {}).items()]
        params.allowed_token_ids = list(self.allowed_token_ids or [])
        params.bad_words = list(self.bad_words or [])
        return params

    @classmethod
    def from_engine(cls, params: _core.SamplingParams) -> SamplingParams:
        """Makes SamplingParams from parameters that the engine recommends."""
        fields = {name: getattr(params, name) for name in _ENGINE_FIELDS}
        return cls(**fields, top_k=params.top_k, stop=list(params.stop), stop_token_ids=list(params.stop_token_ids))


@dataclasses.dataclass
class BeamSearchParams:
    """Names and defaults are vLLM's."""

    beam_width: int
    max_tokens: int
    ignore_eos: bool = False
    temperature: float = 0.0
    length_penalty: float = 1.0
    include_stop_str_in_output: bool = False

    def __post_init__(self) -> None:
        # A step asks for log-probabilities of 2 * beam_width tokens, and the engine gives at most 20.
        if not 1 <= self.beam_width <= 10:
            raise ValueError(f"beam_width: expected 1 to 10, got {self.beam_width!r}")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens: expected 1 or more, got {self.max_tokens!r}")
