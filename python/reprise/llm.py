"""An engine for offline use."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any

import tqdm

from reprise import _core
from reprise.answers import PendingRequest
from reprise.beam_search import BeamSearchOutput, search
from reprise.chat import render_chat
from reprise.config import CompilationConfig
from reprise.engine_args import EngineArgs
from reprise.engine_start import start_engine, startup_report
from reprise.lora import LoRARequest
from reprise.metrics import Metric, metrics_of
from reprise.outputs import RequestOutput
from reprise.process import ProcessGuard
from reprise.prompts import Prompt, as_prompts, text_and_token_ids
from reprise.sampling_params import BeamSearchParams, SamplingParams
from reprise.tokenizer import Tokenizer

# While the engine works, Python checks for Ctrl-C this often.
_PATIENCE_MS = 100


class LLM:
    """Loads a model once and generates as often as you like.

    `model` is a folder in the Hugging Face layout. The other arguments are those of EngineArgs. Raises ValueError
    with the reason for options that cannot work. Downloads nothing.
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
        self._guard = ProcessGuard()
        self._numbers = itertools.count()

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
        all_prompts = as_prompts(prompts)
        if lora_request is None or isinstance(lora_request, LoRARequest):
            adapters = [lora_request] * len(all_prompts)
        else:
            adapters = list(lora_request)
        if len(adapters) != len(all_prompts):
            raise ValueError(f"lora_request: expected {len(all_prompts)}, one for each prompt, got {len(adapters)}")
        all_params = self._params_of(sampling_params, len(all_prompts))
        priorities = list(priority) if priority is not None else [0] * len(all_prompts)
        if len(priorities) != len(all_prompts):
            raise ValueError(f"priority: expected {len(all_prompts)} numbers, one for each prompt, got {len(priorities)}")
        queue = _core.OutputQueue()
        pending: list[PendingRequest] = []
        try:
            for prompt, params, rank, adapter in zip(
                _bar("Adding requests", all_prompts, use_tqdm), all_params, priorities, adapters
            ):
                text, token_ids = text_and_token_ids(self._engine, prompt)
                number = str(next(self._numbers))
                pending.append(PendingRequest(self._engine, queue, number, text, token_ids, params, rank, adapter))
            self._wait(pending, queue, use_tqdm)
        except BaseException:
            for request in pending:
                request.abort()
            raise
        return [request.output for request in pending]

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
        pending: list[PendingRequest],
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


def _bar(
    description: str,
    items: Any,
    use_tqdm: bool | Callable[..., tqdm.tqdm],
    total: int | None = None,
) -> Any:
    make = use_tqdm if callable(use_tqdm) else tqdm.tqdm
    return make(items, total=total, desc=description, disable=not use_tqdm, dynamic_ncols=True)
