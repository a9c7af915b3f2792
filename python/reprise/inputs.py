"""The forms of a prompt, where vLLM has them."""

from reprise.prompts import Prompt, TextPrompt, TokensPrompt

PromptType = Prompt

__all__ = ["PromptType", "TextPrompt", "TokensPrompt"]
