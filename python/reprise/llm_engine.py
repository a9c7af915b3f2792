"""The engine behind `LLM`, one step at a time: vLLM's `LLMEngine`."""

from __future__ import annotations

import copy
import dataclasses
import os
from typing import Any

from reprise import _core
from reprise.answers import PendingRequest
from reprise.engine_args import EngineArgs
from reprise.engine_start import start_engine, startup_report
from reprise.lora import LoRARequest
from reprise.outputs import RequestOutput
from reprise.prompts import Prompt, text_and_token_ids
from reprise.sampling_params import SamplingParams
from reprise.tokenizer import Tokenizer

# step() waits so long for a result, as vLLM's computes one.
_PATIENCE_MS = 1000


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """What scripts read of `llm.llm_engine.model_config`."""

    model: str
    max_model_len: int
    dtype: str


class LLMEngine:
    """Takes requests with add_request() and gives their growing answers with step().

    The engine computes on its own thread: step() returns what has come since the last call, and waits for something to
    come. Do not mix it with LLM.generate() while requests run.
    """

    def __init__(self, engine: _core.Engine, model: str | os.PathLike[str]) -> None:
        self._engine = engine
        self._model = os.fspath(model)
        self._queue = _core.OutputQueue()
        self._pending: dict[str, PendingRequest] = {}
        self._by_number: dict[int, PendingRequest] = {}

    @classmethod
    def from_engine_args(cls, engine_args: EngineArgs) -> LLMEngine:
        return cls(start_engine(engine_args), engine_args.model)

    @property
    def model_config(self) -> ModelConfig:
        report = startup_report(self._engine)
        return ModelConfig(self._model, report["max_model_len"], report["dtype"])

    def get_model_config(self) -> ModelConfig:
        return self.model_config

    @property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer(self._engine)

    def get_tokenizer(self) -> Tokenizer:
        return self.tokenizer

    def add_request(
        self,
        request_id: str,
        prompt: Prompt,
        params: SamplingParams,
        arrival_time: float | None = None,
        lora_request: LoRARequest | None = None,
        priority: int = 0,
    ) -> None:
        """Raises ValueError for a request that can never run or whose name is in use."""
        if request_id in self._pending:
            raise ValueError(f"request_id: '{request_id}' is in use by an unfinished request")
        text, token_ids = text_and_token_ids(self._engine, prompt)
        request = PendingRequest(self._engine, self._queue, request_id, text, token_ids, params, priority, lora_request)
        if arrival_time is not None:
            request.metrics.arrival_time = arrival_time
        self._pending[request_id] = request
        self._by_number.update(dict.fromkeys(request.choices, request))

    def step(self) -> list[RequestOutput]:
        """The requests whose answers have grown, as they are now. Raises GenerationError if the engine failed on one."""
        if not self._pending:
            return []
        changed: dict[str, PendingRequest] = {}
        for step in self._queue.take(_PATIENCE_MS):
            request = self._by_number.get(step.request_id)
            if request is None:
                continue  # was aborted
            try:
                request.apply(step)
            except BaseException:
                self._forget(request)
                raise
            changed[request.output.request_id] = request
        outputs = [copy.deepcopy(request.output) for request in changed.values()]
        for request in changed.values():
            if request.output.finished:
                self._forget(request)
        return outputs

    def abort_request(self, request_id: str | list[str]) -> None:
        for name in [request_id] if isinstance(request_id, str) else request_id:
            if name in self._pending:
                self._pending[name].abort()
                self._forget(self._pending[name])

    def has_unfinished_requests(self) -> bool:
        return bool(self._pending)

    def get_num_unfinished_requests(self) -> int:
        return len(self._pending)

    def sleep(self, level: int = 1, mode: str = "abort") -> None:
        """Gives memory back until wake_up(): 1 the KV cache, 2 the weights too."""
        self._engine.sleep(level, mode)

    def wake_up(self, tags: list[str] | None = None) -> None:
        """`tags`: weights, kv_cache, scheduling; None: all."""
        self._engine.wake_up(tags or [])

    def is_sleeping(self) -> bool:
        return self._engine.is_sleeping()

    def reset_prefix_cache(self) -> bool:
        return self._engine.reset_prefix_cache()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"LLMEngine has no '{name}' here: the engine is native code without Python workers. It has add_request, step, "
            "abort_request, has_unfinished_requests, model_config, tokenizer, sleep and wake_up"
        )

    def _forget(self, request: PendingRequest) -> None:
        self._pending.pop(request.output.request_id, None)
        for number in request.choices:
            self._by_number.pop(number, None)
