"""The required form of an answer: vLLM's `StructuredOutputsParams`."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from reprise import _core

_KINDS = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")


@dataclasses.dataclass
class StructuredOutputsParams:
    """Exactly one field is set. `json` and `structural_tag` may be text or Python objects."""

    json: str | dict[str, Any] | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: str | dict[str, Any] | None = None
    disable_any_whitespace: bool = False

    def __post_init__(self) -> None:
        given = [kind for kind in _KINDS if getattr(self, kind) not in (None, False)]
        if len(given) != 1:
            raise ValueError(f"structured outputs: expected exactly one of {', '.join(_KINDS)}, got {given or 'none'}")
        self._kind = given[0]

    def compile(self, engine: _core.Engine) -> _core.OutputConstraint:
        """Compiles the constraint. Raises ValueError if it is not a valid specification."""
        value = getattr(self, self._kind)
        any_whitespace = not self.disable_any_whitespace
        if self._kind == "choice":
            return engine.compile_constraint("choice", choices=list(value))
        if self._kind == "json_object":
            return engine.compile_constraint("json_object", any_whitespace=any_whitespace)
        text = value if isinstance(value, str) else json.dumps(value)
        return engine.compile_constraint(self._kind, text, any_whitespace=any_whitespace)


GuidedDecodingParams = StructuredOutputsParams
