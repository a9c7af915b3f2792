from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reprise import _core
from reprise.chat import render_chat


class BatchEncoding(dict[str, Any]):
    """The result of calling a tokenizer: a dict whose members are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the encoding has no '{name}', only {', '.join(self)}") from None


class Tokenizer:
    """The model's tokenizer, with the methods of Hugging Face tokenizers that scripts use."""

    def __init__(self, engine: _core.Engine) -> None:
        self._engine = engine

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return self._engine.encode(text, add_special_tokens)

    def __call__(
        self,
        text: str | Sequence[str],
        add_special_tokens: bool = True,
        padding: bool = False,
        truncation: bool = False,
        max_length: int | None = None,
        return_tensors: None = None,
    ) -> BatchEncoding:
        """`input_ids` and `attention_mask` of one text, or lists of them for a list of texts.

        Raises ValueError for padding and tensors: requests take lists of token ids of any length.
        """
        if padding or return_tensors is not None:
            what = "padding" if padding else "return_tensors"
            raise ValueError(f"{what} is not supported: the result has lists, as requests take them, of any length")
        if truncation and max_length is None:
            raise ValueError("truncation=True needs max_length here: the tokens that are kept")
        texts = [text] if isinstance(text, str) else list(text)
        ids = [self.encode(part, add_special_tokens) for part in texts]
        if truncation:
            ids = [part[:max_length] for part in ids]
        masks = [[1] * len(part) for part in ids]
        is_one = isinstance(text, str)
        return BatchEncoding(input_ids=ids[0] if is_one else ids, attention_mask=masks[0] if is_one else masks)

    def batch_decode(self, sequences: Sequence[int | list[int]], skip_special_tokens: bool = False) -> list[str]:
        return [self.decode(part, skip_special_tokens) for part in sequences]

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

    @property
    def vocab_size(self) -> int:
        return len(self)

    def __len__(self) -> int:
        return self._engine.vocab_size()
