from reprise.llm_engine import LLMEngine

__all__ = ["LLMEngine"]
