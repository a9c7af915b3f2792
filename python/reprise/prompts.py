"""The forms that a prompt may have."""

from __future__ import annotations

from typing import Any, TypedDict, Union, cast

from reprise import _core


class TextPrompt(TypedDict):
    prompt: str


class TokensPrompt(TypedDict):
    prompt_token_ids: list[int]


Prompt = Union[str, "list[int]", TextPrompt, TokensPrompt]


def text_and_token_ids(engine: _core.Engine, prompt: Prompt) -> tuple[str | None, list[int]]:
    """The prompt's text, if known, and its tokens."""
    if isinstance(prompt, str):
        return prompt, engine.encode(prompt)
    if isinstance(prompt, dict):
        fields: dict[str, Any] = dict(prompt)
        unknown = sorted(k for k, v in fields.items() if v is not None and k not in ("prompt", "prompt_token_ids"))
        if unknown:
            raise ValueError(
                f"a prompt has no key '{unknown[0]}' here: models read text only; "
                "known keys are 'prompt' and 'prompt_token_ids'"
            )
        if isinstance(fields.get("prompt_token_ids"), (list, tuple)):
            return fields.get("prompt"), list(fields["prompt_token_ids"])
        if isinstance(fields.get("prompt"), str):
            return fields["prompt"], engine.encode(fields["prompt"])
        raise TypeError(
            "a prompt given as a dict needs 'prompt' (text) or 'prompt_token_ids' (a list of "
            f"integers), got the keys {sorted(fields)}"
        )
    if isinstance(prompt, (list, tuple)) and all(isinstance(token, int) for token in prompt):
        return None, list(prompt)
    raise TypeError(
        f"a prompt is text, a list of token ids, or a dict with one of these, got {type(prompt).__name__}"
    )


def as_prompts(prompts: Any) -> list[Prompt]:
    """Makes a list of prompts from one prompt or several. A list of integers is one prompt."""
    if isinstance(prompts, (str, dict)):
        return [cast(Prompt, prompts)]
    prompts = list(prompts)
    if prompts and all(isinstance(token, int) for token in prompts):
        return [prompts]
    return prompts
