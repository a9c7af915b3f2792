"""Builds a request's answers from the results of the engine's steps."""

from __future__ import annotations

import time

from reprise import _core
from reprise.lora import LoRARequest
from reprise.outputs import CompletionOutput, Logprob, PositionLogprobs, RequestMetrics, RequestOutput
from reprise.sampling_params import SamplingParams


class GenerationError(RuntimeError):
    """The engine failed while it computed this request. Other requests are not affected."""


class PendingRequest:
    """A prompt whose `n` answers are being computed. Each answer is one request of the engine."""

    def __init__(
        self,
        engine: _core.Engine,
        queue: _core.OutputQueue,
        request_id: str,
        prompt: str | None,
        prompt_token_ids: list[int],
        params: SamplingParams,
        priority: int = 0,
        lora_request: LoRARequest | None = None,
    ) -> None:
        self.engine = engine
        self.params = params
        self.metrics = RequestMetrics(arrival_time=time.monotonic())
        self.output = RequestOutput(
            request_id=request_id,
            prompt=prompt,
            prompt_token_ids=prompt_token_ids,
            prompt_logprobs=None,
            outputs=[
                CompletionOutput(
                    index=index,
                    text="",
                    token_ids=[],
                    cumulative_logprob=None if params.logprobs is None else 0.0,
                    logprobs=None if params.logprobs is None else [],
                )
                for index in range(params.n)
            ],
            finished=False,
            metrics=self.metrics,
            lora_request=lora_request,
        )
        # The key is the engine's number of the request. If one submission fails, the others are aborted.
        self.choices: dict[int, CompletionOutput] = {}
        try:
            asked = params.structured_outputs
            constraint = None if asked is None else asked.compile(engine)
            name, path = ("", "") if lora_request is None else (lora_request.lora_name, lora_request.lora_path)
            for choice, engine_params in zip(self.output.outputs, params.choices()):
                number = engine.submit(
                    prompt_token_ids,
                    engine_params,
                    queue,
                    priority,
                    constraint=constraint,
                    lora_name=name,
                    lora_path=path,
                )
                self.choices[number] = choice
        except BaseException:
            self.abort()
            raise

    @property
    def num_output_tokens(self) -> int:
        return sum(len(choice.token_ids) for choice in self.output.outputs)

    def abort(self) -> None:
        for number, choice in self.choices.items():
            if choice.finish_reason is None:
                self.engine.abort(number)

    def apply(self, step: _core.StepOutput) -> None:
        """Adds the result of one step. Raises GenerationError if the request failed."""
        choice = self.choices[step.request_id]
        choice.text += step.text
        choice.token_ids += step.token_ids
        now = time.monotonic()
        if step.token_ids:
            self.metrics.first_token_time = self.metrics.first_token_time or now
            self.metrics.last_token_time = now
        if choice.logprobs is not None:
            for position in step.logprobs:
                choice.logprobs.append(self._position(position))
                choice.cumulative_logprob = (choice.cumulative_logprob or 0.0) + position.token.logprob
        if self.params.prompt_logprobs is not None and step.prompt_logprobs:
            # The first prompt token has no log-probability, because no token precedes it.
            self.output.prompt_logprobs = [None, *map(self._position, step.prompt_logprobs)]
        if not step.finished:
            return
        choice.finish_reason = step.finish_reason
        choice.stop_reason = step.stop_reason
        if step.finish_reason == "error":
            raise GenerationError(f"request {self.output.request_id}: {step.error}")
        self.output.finished = all(other.finished() for other in self.output.outputs)
        if self.output.finished:
            self.metrics.finished_time = now

    def _position(self, position: _core.PositionLogprobs) -> PositionLogprobs:
        entries = {position.token.token_id: position.token}
        entries.update((entry.token_id, entry) for entry in position.top)
        return {
            token: Logprob(entry.logprob, entry.rank, self.engine.decode([token], False))
            for token, entry in entries.items()
        }
