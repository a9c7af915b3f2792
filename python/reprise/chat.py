from __future__ import annotations

import json
from typing import Any

from reprise import _core


def render_chat(
    engine: _core.Engine, conversation: list[dict[str, Any]], add_generation_prompt: bool = True
) -> str:
    """The prompt that the model's chat template makes of a conversation."""
    if not add_generation_prompt:
        raise ValueError("add_generation_prompt=False: the engine's template always opens the answer")
    return engine.apply_chat_template(json.dumps(conversation))
