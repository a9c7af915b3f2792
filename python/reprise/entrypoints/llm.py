from reprise.llm import LLM

__all__ = ["LLM"]
