"""The server of the OpenAI API."""
