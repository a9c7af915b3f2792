from reprise.async_llm import AsyncLLMEngine

__all__ = ["AsyncLLMEngine"]
