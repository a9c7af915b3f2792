"""LiteLLM as a client of an OpenAI-compatible server."""

import asyncio
import unittest

from clients import NAME, QUESTION, STORY, TIMEOUT, WithServer  # first: it sets the environment

import litellm  # noqa: E402

litellm.telemetry = False


class LiteLLM(WithServer, unittest.TestCase):
    def fields(self, **fields):
        return {"model": f"openai/{NAME}", "api_base": self.url, "api_key": "none", "temperature": 0,
                "max_tokens": 12, "timeout": TIMEOUT, "num_retries": 0, **fields}

    def test_chat_and_its_stream(self):
        whole = litellm.completion(messages=QUESTION, **self.fields())
        self.assertIn(whole.choices[0].finish_reason, ("stop", "length"))
        chunks = litellm.completion(messages=QUESTION, stream=True, **self.fields())
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks), whole.choices[0].message.content)

    def test_async_chat(self):
        whole = litellm.completion(messages=QUESTION, **self.fields()).choices[0].message.content
        answer = asyncio.run(litellm.acompletion(messages=QUESTION, **self.fields()))
        self.assertEqual(answer.choices[0].message.content, whole)

    def test_text_completion(self):
        answer = litellm.text_completion(
            prompt=STORY, **self.fields(model=f"text-completion-openai/{NAME}", logprobs=2))
        self.assertTrue(answer.choices[0].text)
        self.assertEqual(len(answer.choices[0].logprobs.tokens), 12)

    def test_logprobs_of_a_chat(self):
        answer = litellm.completion(messages=QUESTION, logprobs=True, top_logprobs=2, **self.fields())
        content = answer.choices[0].logprobs.content
        self.assertEqual(len(content), answer.usage.completion_tokens)
        self.assertEqual({len(entry.top_logprobs) for entry in content}, {2})

    def test_it_knows_when_the_context_is_too_long(self):
        messages = [{"role": "user", "content": "word " * 3000}]
        with self.assertRaises(litellm.ContextWindowExceededError):
            litellm.completion(messages=messages, **self.fields())

    def test_it_knows_bad_requests_and_unknown_models(self):
        with self.assertRaises(litellm.BadRequestError):
            litellm.completion(messages=QUESTION, **self.fields(temperature=9))
        with self.assertRaises(litellm.NotFoundError):
            litellm.completion(messages=QUESTION, **self.fields(model="openai/other"))


if __name__ == "__main__":
    unittest.main()
