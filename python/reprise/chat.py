from __future__ import annotations

import json
from typing import Any

from reprise import _core


def render_chat(
    engine: _core.Engine,
    conversation: list[dict[str, Any]],
    add_generation_prompt: bool = True,
    continue_final_message: bool = False,
    tools: list[dict[str, Any]] | None = None,
    chat_template_kwargs: dict[str, Any] | None = None,
    chat_template: str | None = None,
    chat_template_content_format: str | None = None,
    documents: list[dict[str, Any]] | None = None,
) -> tuple[str, list[int]]:
    """The prompt that the model's chat template makes from a conversation, and its tokens."""
    options: dict[str, Any] = {
        "add_generation_prompt": add_generation_prompt,
        "continue_final_message": continue_final_message,
        "kwargs": chat_template_kwargs or {},
    }
    if tools:
        options["tools"] = tools
    if chat_template is not None:
        options["chat_template"] = chat_template
    if chat_template_content_format is not None:
        options["content_format"] = chat_template_content_format
    if documents:
        options["documents"] = documents
    return engine.render_chat(json.dumps(conversation), json.dumps(options))
