from __future__ import annotations

from typing import Any

from reprise import _core
from reprise.chat import render_chat


class Tokenizer:
    """The model's tokenizer, with the methods of Hugging Face tokenizers that scripts use."""

    def __init__(self, engine: _core.Engine) -> None:
        self._engine = engine

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return self._engine.encode(text, add_special_tokens)

    def decode(self, token_ids: int | list[int], skip_special_tokens: bool = False) -> str:
        if isinstance(token_ids, int):
            token_ids = [token_ids]
        return self._engine.decode(token_ids, skip_special_tokens)

    def apply_chat_template(
        self, conversation: list[dict[str, Any]], tokenize: bool = True, **options: Any
    ) -> str | list[int]:
        options.setdefault("add_generation_prompt", False)
        text, token_ids = render_chat(self._engine, conversation, **options)
        return token_ids if tokenize else text

    @property
    def eos_token_id(self) -> int | None:
        return self._engine.eos_token_id()

    @property
    def bos_token_id(self) -> int | None:
        return self._engine.bos_token_id()

    def __len__(self) -> int:
        return self._engine.vocab_size()
