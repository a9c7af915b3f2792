"""An engine for offline use."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import tqdm

from reprise import _core
from reprise.answers import PendingRequest
from reprise.beam_search import BeamSearchOutput, search
from reprise.chat import render_chat
from reprise.config import CompilationConfig
from reprise.engine_args import EngineArgs
from reprise.engine_start import start_engine, startup_report
from reprise.llm_engine import LLMEngine
from reprise.lora import LoRARequest
from reprise.metrics import Metric, metrics_of
from reprise.outputs import (
    ClassificationOutput,
    ClassificationRequestOutput,
    EmbeddingOutput,
    EmbeddingRequestOutput,
    PoolingOutput,
    PoolingRequestOutput,
    RequestOutput,
    ScoringOutput,
    ScoringRequestOutput,
)
from reprise.pooling import EncodedPrompt, PendingPooling, PoolingModel, as_pooling_params, cosine, pairs_of
from reprise.pooling_params import PoolingParams
from reprise.process import ProcessGuard
from reprise.prompts import Prompt, as_prompts, text_and_token_ids
from reprise.sampling_params import BeamSearchParams, SamplingParams
from reprise.tokenizer import Tokenizer

# While the engine works, Python checks for Ctrl-C this often.
_PATIENCE_MS = 100

_Pending = TypeVar("_Pending", PendingRequest, PendingPooling)
_Answer = TypeVar("_Answer", EmbeddingRequestOutput, ClassificationRequestOutput, ScoringRequestOutput)


class LLM:
    """Loads a model once and generates as often as you like.

    `model` is a folder in the Hugging Face layout, a GGUF file, or a name that `reprise pull` downloaded. The other
    arguments are those of EngineArgs. Raises ValueError with the reason for options that cannot work. Downloads
    nothing.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        compilation_config: CompilationConfig | dict[str, Any] | int | None = None,
        on_progress: Callable[[str, int, int], None] | None = None,
        **engine_args: Any,
    ) -> None:
        args = EngineArgs.from_arguments(model, engine_args | {"compilation_config": compilation_config})
        self._engine = start_engine(args, on_progress)
        self._model = os.fspath(model)
        self._pooling = PoolingModel(self._engine)
        self._guard = ProcessGuard()
        self._numbers = itertools.count()
        self._steps: LLMEngine | None = None

    @classmethod
    def from_engine_args(cls, args: EngineArgs) -> LLM:
        return cls(**{name: getattr(args, name) for name in args.__dataclass_fields__})

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        use_tqdm: bool | Callable[..., tqdm.tqdm] = True,
        lora_request: LoRARequest | Sequence[LoRARequest | None] | None = None,
        priority: Sequence[int] | None = None,
    ) -> list[RequestOutput]:
        """Answers all prompts in batches; the answers have the order of the prompts.

        A prompt is text, a list of token ids, or a dict with `prompt` or `prompt_token_ids`. One SamplingParams
        applies to all prompts; a list has one per prompt. So does a LoRARequest; in its list, None means the model
        without an adapter. Ctrl-C aborts the requests.
        """
        self._guard.check()
        self._pooling.require_generation("generate")
        all_prompts = as_prompts(prompts)
        adapters = _adapters_of(lora_request, len(all_prompts))
        all_params = self._params_of(sampling_params, len(all_prompts))
        priorities = list(priority) if priority is not None else [0] * len(all_prompts)
        if len(priorities) != len(all_prompts):
            raise ValueError(f"priority: expected {len(all_prompts)} numbers, one for each prompt, got {len(priorities)}")

        def submit(queue: _core.OutputQueue, number: str, index: int) -> PendingRequest:
            text, token_ids = text_and_token_ids(self._engine, all_prompts[index])
            return PendingRequest(
                self._engine, queue, number, text, token_ids, all_params[index], priorities[index], adapters[index]
            )

        return [request.output for request in self._answer(len(all_prompts), submit, use_tqdm)]

    def embed(
        self,
        prompts: Prompt | Sequence[Prompt],
        *,
        use_tqdm: bool | Callable[..., tqdm.tqdm] = True,
        pooling_params: PoolingParams | Sequence[PoolingParams] | None = None,
        lora_request: LoRARequest | Sequence[LoRARequest | None] | None = None,
    ) -> list[EmbeddingRequestOutput]:
        """The vector of each text: `output.outputs.embedding`."""
        self._pooling.require("embed")
        answers = self.encode(prompts, pooling_params, use_tqdm=use_tqdm, lora_request=lora_request)
        return [_as(EmbeddingRequestOutput, answer, EmbeddingOutput(answer.outputs.data)) for answer in answers]

    def classify(
        self,
        prompts: Prompt | Sequence[Prompt],
        *,
        use_tqdm: bool | Callable[..., tqdm.tqdm] = True,
        pooling_params: PoolingParams | Sequence[PoolingParams] | None = None,
        lora_request: LoRARequest | Sequence[LoRARequest | None] | None = None,
    ) -> list[ClassificationRequestOutput]:
        """How probable each label is for each text: `output.outputs.probs`, in the order of config.json's id2label."""
        self._pooling.require("classify")
        answers = self.encode(prompts, pooling_params, use_tqdm=use_tqdm, lora_request=lora_request)
        return [_as(ClassificationRequestOutput, answer, ClassificationOutput(answer.outputs.data)) for answer in answers]

    def encode(
        self,
        prompts: Prompt | Sequence[Prompt],
        pooling_params: PoolingParams | Sequence[PoolingParams] | None = None,
        *,
        use_tqdm: bool | Callable[..., tqdm.tqdm] = True,
        lora_request: LoRARequest | Sequence[LoRARequest | None] | None = None,
        pooling_task: str | None = None,
    ) -> list[PoolingRequestOutput[PoolingOutput]]:
        """What the model makes of each text: `output.outputs.data`, a vector or the scores of labels.

        `pooling_task` may name it: embed or classify. Vectors of single tokens are not there.
        """
        if pooling_task in ("embed", "classify"):
            self._pooling.require(pooling_task)
        elif pooling_task is not None:
            raise ValueError(f"pooling_task: '{pooling_task}' is not supported; expected embed or classify")
        self._pooling.require("encode")
        encoded: list[EncodedPrompt] = [
            (*text_and_token_ids(self._engine, prompt), None) for prompt in as_prompts(prompts)
        ]
        return self._pool(encoded, pooling_params, use_tqdm, lora_request)

    def score(
        self,
        data_1: str | Sequence[str],
        data_2: str | Sequence[str],
        /,
        *,
        use_tqdm: bool | Callable[..., tqdm.tqdm] = True,
        pooling_params: PoolingParams | None = None,
        lora_request: LoRARequest | None = None,
    ) -> list[ScoringRequestOutput]:
        """How similar pairs of texts are: `output.outputs.score`.

        One text is compared with each of the others; several are compared with one each. A cross-encoder reads both
        texts at once; vectors are compared by their cosine.
        """
        self._pooling.require("score")
        queries, documents = pairs_of(data_1, data_2)
        if self._pooling.compares_pairs:
            pairs: list[EncodedPrompt] = []
            for query, document in zip(queries, documents):
                token_ids, second_begin = self._engine.encode_pair(query, document)
                pairs.append((None, token_ids, second_begin))
            answers = self._pool(pairs, pooling_params, use_tqdm, lora_request)
            return [_as(ScoringRequestOutput, answer, ScoringOutput(answer.outputs.data[0])) for answer in answers]
        texts = list(dict.fromkeys(queries + documents))  # each once
        encoded: list[EncodedPrompt] = [(text, self._engine.encode(text), None) for text in texts]
        by_text = dict(zip(texts, self._pool(encoded, pooling_params, use_tqdm, lora_request)))
        results = []
        for query, document in zip(queries, documents):
            first, second = by_text[query], by_text[document]
            both = dataclasses.replace(first, prompt_token_ids=first.prompt_token_ids + second.prompt_token_ids)
            results.append(_as(ScoringRequestOutput, both, ScoringOutput(cosine(first.outputs.data, second.outputs.data))))
        return results

    def chat(
        self,
        messages: list[dict[str, Any]] | list[list[dict[str, Any]]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        use_tqdm: bool | Callable[..., tqdm.tqdm] = True,
        lora_request: LoRARequest | Sequence[LoRARequest | None] | None = None,
        chat_template: str | None = None,
        chat_template_content_format: str | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        tools: list[dict[str, Any]] | None = None,
        chat_template_kwargs: dict[str, Any] | None = None,
    ) -> list[RequestOutput]:
        """Answers one conversation or several, rendered with the model's chat template or with `chat_template`.

        `tools` are JSON schemas as in the OpenAI API; `chat_template_kwargs` are more variables for the template.
        `chat_template_content_format`: auto, string or openai; default: the engine's.
        """
        self._guard.check()
        conversations: Any = [messages] if messages and isinstance(messages[0], dict) else messages
        prompts: list[Any] = []
        for conversation in conversations:
            text, token_ids = render_chat(
                self._engine,
                conversation,
                add_generation_prompt,
                continue_final_message,
                tools,
                chat_template_kwargs,
                chat_template,
                chat_template_content_format,
            )
            prompts.append({"prompt": text, "prompt_token_ids": token_ids})
        return self.generate(prompts, sampling_params, use_tqdm, lora_request)

    def beam_search(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: BeamSearchParams,
        lora_request: LoRARequest | None = None,
        use_tqdm: bool = False,
    ) -> list[BeamSearchOutput]:
        """The best answers to each prompt that a beam search of `beam_width` finds, best first."""
        token_ids = [text_and_token_ids(self._engine, prompt)[1] for prompt in as_prompts(prompts)]
        found = search(
            token_ids,
            params,
            self._engine.eos_token_id(),
            lambda beams, one_token: self.generate(beams, one_token, use_tqdm, lora_request),
        )
        for output in found:
            for sequence in output.sequences:
                ends = sequence.finish_reason == "stop" and not params.include_stop_str_in_output
                sequence.text = self._engine.decode(sequence.tokens[:-1] if ends else sequence.tokens)
        return found

    def get_tokenizer(self) -> Tokenizer:
        return Tokenizer(self._engine)

    def get_default_sampling_params(self) -> SamplingParams:
        """The sampling parameters that the model's authors recommend, else vLLM's defaults."""
        return SamplingParams.from_engine(self._engine.default_sampling_params())

    def stats(self) -> dict[str, Any]:
        """Counts since the start: tokens, steps by graph mode, preemptions."""
        return self._engine.stats()

    def get_metrics(self) -> list[Metric]:
        """The current metrics, with the names of the server's /metrics."""
        return metrics_of(self._engine, {"model_name": self._model, "engine": "0"})

    @property
    def llm_engine(self) -> LLMEngine:
        """The same engine, one step at a time. One object, however often it is asked for."""
        if self._steps is None:
            self._steps = LLMEngine(self._engine, self._model)
        return self._steps

    def sleep(self, level: int = 1, mode: str = "abort") -> None:
        """Gives memory back until wake_up(): level 1 the KV cache, level 2 the weights too, level 0 only pauses.

        `mode`: unfinished requests are aborted, or the call waits for them. Requests that come meanwhile wait.
        """
        self._engine.sleep(level, mode)

    def wake_up(self, tags: list[str] | None = None) -> None:
        """Ends sleep(), or a part of it: `tags` are weights, kv_cache, scheduling."""
        self._engine.wake_up(tags or [])

    def reset_prefix_cache(self) -> bool:
        """Drops all cached prefixes. Returns False and changes nothing while a request runs."""
        return self._engine.reset_prefix_cache()

    def start_profile(self) -> None:
        """Starts a recording of steps, which stop_profile() ends."""
        if not self._engine.start_profile():
            raise RuntimeError("steps are being recorded already; stop_profile() ends that")

    def stop_profile(self, folder: str | os.PathLike[str] | None = None) -> str | None:
        """Writes the trace into `folder`, else VLLM_TORCH_PROFILER_DIR, else the current folder.

        Returns the path, or None if no recording was active.
        """
        return self._engine.stop_profile(os.fspath(folder or os.environ.get("VLLM_TORCH_PROFILER_DIR") or "."))

    def startup_report(self) -> dict[str, Any]:
        """Decisions and measurements of the start; times in seconds."""
        return startup_report(self._engine)

    def shutdown(self) -> None:
        """Frees the model now, not only when the object is destroyed."""
        self._engine.shutdown()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def _answer(
        self,
        num_prompts: int,
        submit: Callable[[_core.OutputQueue, str, int], _Pending],
        use_tqdm: bool | Callable[..., tqdm.tqdm],
    ) -> list[_Pending]:
        """Submits all prompts, waits for their answers, and aborts them if anything fails."""
        queue = _core.OutputQueue()
        pending: list[_Pending] = []
        try:
            for index in _bar("Adding requests", range(num_prompts), use_tqdm):
                pending.append(submit(queue, str(next(self._numbers)), index))
            self._wait(pending, queue, use_tqdm)
        except BaseException:
            for request in pending:
                request.abort()
            raise
        return pending

    def _pool(
        self,
        prompts: list[EncodedPrompt],
        pooling_params: PoolingParams | Sequence[PoolingParams] | None,
        use_tqdm: bool | Callable[..., tqdm.tqdm],
        lora_request: LoRARequest | Sequence[LoRARequest | None] | None,
    ) -> list[PoolingRequestOutput[PoolingOutput]]:
        self._guard.check()
        all_params = as_pooling_params(pooling_params, len(prompts))
        for params in all_params:
            self._pooling.check(params)
        adapters = _adapters_of(lora_request, len(prompts))

        def submit(queue: _core.OutputQueue, number: str, index: int) -> PendingPooling:
            return PendingPooling(
                self._pooling, self._engine, queue, number, prompts[index], all_params[index], adapters[index]
            )

        return [request.output for request in self._answer(len(prompts), submit, use_tqdm)]

    def _params_of(
        self, params: SamplingParams | Sequence[SamplingParams] | None, num_prompts: int
    ) -> list[SamplingParams]:
        if params is None:
            params = self.get_default_sampling_params()
        if isinstance(params, SamplingParams):
            return [params] * num_prompts
        if len(params) != num_prompts:
            raise ValueError(
                f"sampling_params: expected one or {num_prompts}, one for each prompt, got {len(params)}"
            )
        return list(params)

    def _wait(
        self,
        pending: Sequence[PendingRequest | PendingPooling],
        queue: _core.OutputQueue,
        use_tqdm: bool | Callable[..., tqdm.tqdm],
    ) -> None:
        by_number = {number: request for request in pending for number in request.choices}
        num_unfinished = len(pending)
        num_input = 0
        num_output = 0
        with _bar("Processed prompts", None, use_tqdm, total=len(pending)) as bar:
            while num_unfinished:
                for step in queue.take(_PATIENCE_MS):
                    request = by_number[step.request_id]
                    request.apply(step)
                    if not request.output.finished:
                        continue
                    num_unfinished -= 1
                    num_input += len(request.output.prompt_token_ids)
                    num_output += request.num_output_tokens
                    seconds = max(bar.format_dict["elapsed"] or 0, 1e-9)
                    bar.set_postfix_str(
                        f"est. speed input: {num_input / seconds:.2f} toks/s, "
                        f"output: {num_output / seconds:.2f} toks/s",
                        refresh=False,
                    )
                    bar.update(1)


def _adapters_of(
    lora_request: LoRARequest | Sequence[LoRARequest | None] | None, num_prompts: int
) -> list[LoRARequest | None]:
    if lora_request is None or isinstance(lora_request, LoRARequest):
        return [lora_request] * num_prompts
    if len(lora_request) != num_prompts:
        raise ValueError(f"lora_request: expected {num_prompts}, one for each prompt, got {len(lora_request)}")
    return list(lora_request)


def _as(kind: type[_Answer], answer: PoolingRequestOutput[PoolingOutput], outputs: Any) -> _Answer:
    """The answer as vLLM's class for it."""
    return kind(answer.request_id, outputs, answer.prompt_token_ids, answer.finished, answer.num_cached_tokens)


def _bar(
    description: str,
    items: Any,
    use_tqdm: bool | Callable[..., tqdm.tqdm],
    total: int | None = None,
) -> Any:
    make = use_tqdm if callable(use_tqdm) else tqdm.tqdm
    return make(items, total=total, desc=description, disable=not use_tqdm, dynamic_ncols=True)
