from reprise.lora.request import LoRARequest

__all__ = ["LoRARequest"]
