from reprise.async_llm import AsyncLLM

__all__ = ["AsyncLLM"]
