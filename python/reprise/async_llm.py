"""An engine for asyncio programs."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from typing import Any

from reprise import _core
from reprise.answers import GenerationError, PendingRequest
from reprise.engine_args import EngineArgs
from reprise.engine_start import start_engine
from reprise.lora import LoRARequest
from reprise.outputs import RequestOutput
from reprise.process import ProcessGuard
from reprise.prompts import Prompt, text_and_token_ids
from reprise.sampling_params import RequestOutputKind, SamplingParams
from reprise.tokenizer import Tokenizer

AsyncEngineArgs = EngineArgs


class AsyncLLM:
    """Runs many requests at once; each is an asynchronous stream of RequestOutput.

    Use the object from one event loop. Leaving the `async for` early, or cancelling its task, aborts the request.
    """

    def __init__(self, args: EngineArgs) -> None:
        self._engine = start_engine(args)
        self._guard = ProcessGuard()
        self._queue = _core.OutputQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        # The queues of results by the engine's number of the request, and the requests by the caller's name.
        self._steps: dict[int, asyncio.Queue[_core.StepOutput]] = {}
        self._pending: dict[str, PendingRequest] = {}

    @classmethod
    def from_engine_args(cls, args: EngineArgs) -> AsyncLLM:
        return cls(args)

    async def generate(
        self,
        prompt: Prompt,
        sampling_params: SamplingParams,
        request_id: str,
        priority: int = 0,
        lora_request: LoRARequest | None = None,
    ) -> AsyncIterator[RequestOutput]:
        """Yields the growing answer in the form that `sampling_params.output_kind` asks for.

        Raises ValueError for a request that can never run or whose name is in use, and GenerationError if the engine
        failed on the request.
        """
        self._guard.check()
        self._attach()
        if sampling_params.structured_outputs is not None:
            # This compiles the constraint on another thread; the request then finds it in the engine's cache.
            await asyncio.to_thread(sampling_params.structured_outputs.compile, self._engine)
        if request_id in self._pending:
            raise ValueError(f"request_id: '{request_id}' is in use by an unfinished request")
        text, token_ids = text_and_token_ids(self._engine, prompt)
        request = PendingRequest(
            self._engine, self._queue, request_id, text, token_ids, sampling_params, priority, lora_request
        )
        steps: asyncio.Queue[_core.StepOutput] = asyncio.Queue()
        self._pending[request_id] = request
        for number in request.choices:
            self._steps[number] = steps
        kind = sampling_params.output_kind
        try:
            while not request.output.finished:
                before = [(len(choice.text), len(choice.token_ids)) for choice in request.output.outputs]
                request.apply(await steps.get())
                while not steps.empty():
                    request.apply(steps.get_nowait())
                if kind is RequestOutputKind.CUMULATIVE:
                    yield copy.deepcopy(request.output)
                elif kind is RequestOutputKind.DELTA:
                    yield _since(request.output, before)
                elif request.output.finished:
                    yield request.output
        finally:
            request.abort()
            del self._pending[request_id]
            for number in request.choices:
                del self._steps[number]

    async def abort(self, request_id: str) -> None:
        """Ends a request; its stream ends with the finish reason "abort"."""
        if request_id in self._pending:
            self._pending[request_id].abort()

    async def check_health(self) -> None:
        """Raises GenerationError if the engine can run no more requests."""
        if self._engine.stats()["is_dead"]:
            raise GenerationError("the device is lost; restart the process")

    async def sleep(self, level: int = 1, mode: str = "abort") -> None:
        """Gives memory back until wake_up(), as LLM.sleep(). Requests that come meanwhile wait."""
        await asyncio.to_thread(self._engine.sleep, level, mode)

    async def wake_up(self, tags: list[str] | None = None) -> None:
        await asyncio.to_thread(self._engine.wake_up, tags or [])

    async def is_sleeping(self) -> bool:
        return self._engine.is_sleeping()

    async def get_tokenizer(self) -> Tokenizer:
        return Tokenizer(self._engine)

    def stats(self) -> dict[str, Any]:
        return self._engine.stats()

    def shutdown(self) -> None:
        """Aborts unfinished requests and frees the model."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._queue.fileno())
        self._engine.shutdown()

    def _attach(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._loop is not None and not self._loop.is_closed():
            raise RuntimeError("this engine serves another event loop; use it from one loop only")
        self._loop = loop
        loop.add_reader(self._queue.fileno(), self._hand_out)

    def _hand_out(self) -> None:
        for step in self._queue.take(0):
            # An aborted request has no reader for its remaining results.
            if step.request_id in self._steps:
                self._steps[step.request_id].put_nowait(step)


AsyncLLMEngine = AsyncLLM


def _since(output: RequestOutput, before: list[tuple[int, int]]) -> RequestOutput:
    """A copy of `output` that has only the text and tokens after the given lengths."""
    new = copy.deepcopy(output)
    for choice, (num_characters, num_tokens) in zip(new.outputs, before):
        choice.text = choice.text[num_characters:]
        choice.token_ids = choice.token_ids[num_tokens:]
        if choice.logprobs is not None:
            choice.logprobs = choice.logprobs[num_tokens:]
    return new
