"""Adapters of requests."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class LoRARequest:
    """A PEFT adapter that answers a request, as in vLLM.

    The first request with a name reads the folder `lora_path`; later requests find the adapter by its name. The engine
    numbers adapters itself, so `lora_int_id` is kept only for the caller.
    """

    lora_name: str
    lora_int_id: int
    lora_path: str = ""

    @property
    def name(self) -> str:
        return self.lora_name

    @property
    def adapter_id(self) -> int:
        return self.lora_int_id

    @property
    def path(self) -> str:
        return self.lora_path
