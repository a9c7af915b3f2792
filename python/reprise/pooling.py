"""Vectors, scores and probabilities of texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from reprise import _core
from reprise.lora import LoRARequest
from reprise.outputs import PoolingOutput, PoolingRequestOutput
from reprise.pooling_params import PoolingParams
from reprise.sampling_params import SamplingParams

# A prompt's text and tokens, and where the second of two texts begins.
EncodedPrompt = tuple["str | None", "list[int]", "int | None"]


class PoolingModel:
    """What an engine can make of texts. Raises ValueError for a task that its model does not have."""

    def __init__(self, engine: _core.Engine) -> None:
        self._engine = engine
        report = engine.startup_report()
        self._makes_vectors: bool = report["makes_vectors"]
        self._normalizes: bool = report["normalizes"]
        self._lengths: list[int] = report["vector_lengths"]
        self._longest: int = report["longest_vector"]
        self.labels: list[str] = report["labels"]

    def require_generation(self, method: str) -> None:
        if self._makes_vectors:
            raise ValueError(f"LLM.{method}() needs a model that generates text; this one makes vectors or scores of texts: "
                             "use embed(), encode(), classify() or score()")

    def require(self, task: str) -> None:
        """`task`: embed, classify, score or encode."""
        if not self._makes_vectors:
            raise ValueError(f"LLM.{task}() needs a model that makes vectors of texts; this one generates text. "
                             'LLM(..., runner="pooling") makes vectors of its hidden states')
        if task == "embed" and self.labels:
            raise ValueError("LLM.embed() needs a model that makes vectors; this one gives scores of labels: use classify()")
        if task == "classify" and not self.labels:
            raise ValueError("LLM.classify() needs a model whose architecture ends with ForSequenceClassification; this one "
                             "makes vectors: use embed()")
        if task == "score" and len(self.labels) > 1:
            raise ValueError(f"LLM.score() needs a model with one label or with vectors; this one has {len(self.labels)} "
                             "labels: use classify()")

    @property
    def compares_pairs(self) -> bool:
        """The model reads both texts of a pair at once."""
        return len(self.labels) == 1

    def values(self, pooled: list[float], params: PoolingParams) -> list[float]:
        wanted = params.is_activated
        return self._engine.pooled_values(pooled, params.dimensions, self._normalizes if wanted is None else wanted)

    def check(self, params: PoolingParams) -> None:
        length = params.dimensions
        if length is None:
            return
        if self._longest == 0:
            raise ValueError('dimensions: the vectors of this model may not be cut; hf_overrides={"is_matryoshka": True} '
                             "allows it")
        if not 1 <= length <= self._longest or (self._lengths and length not in self._lengths):
            expected = ", ".join(map(str, self._lengths)) or f"1 to {self._longest}"
            raise ValueError(f"dimensions: expected {expected}, got {length}")


def pairs_of(first: str | Sequence[str], second: str | Sequence[str]) -> tuple[list[str], list[str]]:
    """One text is compared with each of the others; several are compared with one each."""
    queries = [first] if isinstance(first, str) else list(first)
    documents = [second] if isinstance(second, str) else list(second)
    for texts in (queries, documents):
        if not texts or not all(isinstance(text, str) for text in texts):
            raise ValueError("score: expected texts, as one str or as a list of str that is not empty")
    if len(queries) == 1:
        queries *= len(documents)
    if len(queries) != len(documents):
        raise ValueError(f"score: {len(queries)} texts cannot be compared with {len(documents)}; expected one, or equally many")
    return queries, documents


def cosine(a: list[float], b: list[float]) -> float:
    lengths = math.sqrt(math.fsum(x * x for x in a)) * math.sqrt(math.fsum(x * x for x in b))
    return 0.0 if lengths == 0 else math.fsum(x * y for x, y in zip(a, b)) / lengths


class PendingPooling:
    """A text whose numbers are being computed, with the interface of PendingRequest."""

    num_output_tokens = 0

    def __init__(
        self,
        model: PoolingModel,
        engine: _core.Engine,
        queue: _core.OutputQueue,
        request_id: str,
        prompt: EncodedPrompt,
        params: PoolingParams,
        lora_request: LoRARequest | None = None,
    ) -> None:
        text, token_ids, second_begin = prompt
        self._model, self._engine, self._params = model, engine, params
        self.output = PoolingRequestOutput(request_id, PoolingOutput([]), token_ids, finished=False)
        # The vector counts as one token that is never computed.
        one_token = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True)
        [core_params] = one_token.choices()
        name, path = ("", "") if lora_request is None else (lora_request.lora_name, lora_request.lora_path)
        number = engine.submit(token_ids, core_params, queue, lora_name=name, lora_path=path, second_text_begin=second_begin)
        self.choices = {number: self.output}

    def abort(self) -> None:
        for number in self.choices:
            if not self.output.finished:
                self._engine.abort(number)

    def apply(self, step: _core.StepOutput) -> None:
        if not step.finished:
            return
        if step.finish_reason in ("error", "abort"):
            raise RuntimeError(f"request {self.output.request_id}: {step.error or 'aborted'}")
        self.output.outputs = PoolingOutput(self._model.values(step.pooled, self._params))
        self.output.finished = True


def as_pooling_params(params: Any, num_prompts: int) -> list[PoolingParams]:
    if params is None:
        params = PoolingParams()
    if isinstance(params, PoolingParams):
        return [params] * num_prompts
    if len(params) != num_prompts:
        raise ValueError(f"pooling_params: expected one or {num_prompts}, one for each prompt, got {len(params)}")
    return list(params)
