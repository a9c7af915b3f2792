"""Beam search like vLLM's: one token per step, with log-probabilities from the engine."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable

from reprise.outputs import PositionLogprobs, RequestOutput
from reprise.prompts import TokensPrompt
from reprise.sampling_params import BeamSearchParams, SamplingParams


@dataclasses.dataclass
class BeamSearchSequence:
    """A beam. As in vLLM, `tokens` and `text` begin with the prompt."""

    tokens: list[int]
    logprobs: list[PositionLogprobs]
    cum_logprob: float = 0.0
    text: str | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


@dataclasses.dataclass
class BeamSearchOutput:
    """The best sequence comes first."""

    sequences: list[BeamSearchSequence]


@dataclasses.dataclass
class _Search:
    beams: list[BeamSearchSequence]
    completed: list[BeamSearchSequence] = dataclasses.field(default_factory=list)


def search(
    prompts: list[list[int]],
    params: BeamSearchParams,
    eos_token_id: int | None,
    generate: Callable[[list[TokensPrompt], SamplingParams], list[RequestOutput]],
) -> list[BeamSearchOutput]:
    """Runs the search. Each step is one batch of all beams of all prompts.

    A step considers 2 * beam_width continuations: even if beam_width of them end, beam_width remain.
    """
    one_token = SamplingParams(
        logprobs=2 * params.beam_width, max_tokens=1, temperature=params.temperature, ignore_eos=True, detokenize=False
    )
    searches = [_Search([BeamSearchSequence(list(prompt), [])]) for prompt in prompts]

    def score(beam: BeamSearchSequence) -> float:
        length = len(beam.tokens) - (beam.tokens[-1] == eos_token_id)
        return beam.cum_logprob / length**params.length_penalty

    for _ in range(params.max_tokens):
        live = [beam for each in searches for beam in each.beams]
        if not live:
            break
        answers = iter(generate([{"prompt_token_ids": beam.tokens} for beam in live], one_token))
        for each in searches:
            continued: list[BeamSearchSequence] = []
            for beam in each.beams:
                position = (next(answers).outputs[0].logprobs or [])[0]
                for token, entry in position.items():
                    new = BeamSearchSequence(
                        [*beam.tokens, token], [*beam.logprobs, position], beam.cum_logprob + entry.logprob
                    )
                    if token == eos_token_id and not params.ignore_eos:
                        new.finish_reason, new.stop_reason = "stop", token
                        each.completed.append(new)
                    else:
                        continued.append(new)
            each.beams = heapq.nlargest(params.beam_width, continued, key=score)
    for each in searches:
        for beam in each.beams:
            beam.finish_reason = "length"
    return [
        BeamSearchOutput(heapq.nlargest(params.beam_width, each.completed + each.beams, key=score)) for each in searches
    ]
