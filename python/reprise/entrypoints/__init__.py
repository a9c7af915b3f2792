"""Programs, by the names of their modules in vLLM."""
