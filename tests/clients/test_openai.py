"""The openai package: what it sends is accepted and what it gets fits its types."""

import asyncio
import unittest

import openai
from clients import NAME, QUESTION, STORY, TIMEOUT, WithServer


class Openai(WithServer, unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=self.url, api_key="none", timeout=TIMEOUT, max_retries=0)

    def tearDown(self):
        self.client.close()

    def complete(self, **fields):
        return self.client.completions.create(
            **{"model": NAME, "prompt": STORY, "temperature": 0, "max_tokens": 12, **fields})

    def chat(self, **fields):
        return self.client.chat.completions.create(
            **{"model": NAME, "messages": QUESTION, "temperature": 0, "max_tokens": 12, **fields})

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], [NAME])
        self.assertEqual(self.client.models.retrieve(NAME).id, NAME)

    def test_completion_and_its_stream(self):
        whole = self.complete()
        self.assertEqual(whole.choices[0].finish_reason, "length")
        self.assertEqual(whole.usage.completion_tokens, 12)
        chunks = list(self.complete(stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(c.choices[0].text for c in chunks if c.choices), whole.choices[0].text)
        self.assertEqual(chunks[-1].usage, whole.usage)

    def test_chat_and_its_stream(self):
        whole = self.chat()
        self.assertEqual(whole.choices[0].message.role, "assistant")
        chunks = list(self.chat(stream=True))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks), whole.choices[0].message.content)

    def test_async(self):
        whole = self.chat().choices[0].message.content

        async def run():
            async with openai.AsyncOpenAI(base_url=self.url, api_key="none", timeout=TIMEOUT) as client:
                async def one():
                    text = ""
                    async for chunk in await client.chat.completions.create(
                            model=NAME, messages=QUESTION, temperature=0, max_tokens=12, stream=True):
                        text += chunk.choices[0].delta.content or ""
                    return text
                return await asyncio.gather(*[one() for _ in range(8)])

        self.assertEqual(asyncio.run(run()), [whole] * 8)

    def test_logprobs_of_a_completion_fit_its_text(self):
        choice = self.complete(prompt="Once upon a", echo=True, logprobs=3).choices[0]
        logprobs = choice.logprobs
        self.assertEqual("".join(logprobs.tokens), choice.text)
        self.assertTrue(choice.text.startswith("Once upon a"))
        for token, offset in zip(logprobs.tokens, logprobs.text_offset):
            self.assertEqual(choice.text[offset:offset + len(token)], token)
        self.assertIsNone(logprobs.token_logprobs[0])
        for token, value, top in list(zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs))[1:]:
            self.assertLessEqual(value, 0)
            self.assertEqual(top[token], value)
            self.assertIn(len(top), (3, 4))
        self.assertEqual(len(logprobs.tokens), len(logprobs.top_logprobs))
        # With greedy sampling, the generated tokens are the likeliest ones.
        self.assertEqual(logprobs.token_logprobs[-1], max(logprobs.top_logprobs[-1].values()))

    def test_logprobs_of_a_stream_are_those_of_the_whole(self):
        whole = self.complete(echo=True, logprobs=2).choices[0]
        tokens, offsets, values = [], [], []
        for chunk in self.complete(echo=True, logprobs=2, stream=True):
            tokens += chunk.choices[0].logprobs.tokens
            offsets += chunk.choices[0].logprobs.text_offset
            values += chunk.choices[0].logprobs.token_logprobs
        self.assertEqual((tokens, offsets, values),
                         (whole.logprobs.tokens, whole.logprobs.text_offset, whole.logprobs.token_logprobs))

    def test_echo_alone(self):
        choice = self.complete(prompt=STORY, echo=True, max_tokens=0, logprobs=0).choices[0]
        self.assertEqual(choice.text, STORY)
        self.assertEqual("".join(choice.logprobs.tokens), STORY)

    def test_logprobs_of_a_chat(self):
        choice = self.chat(logprobs=True, top_logprobs=4).choices[0]
        content = choice.logprobs.content
        spelled = b"".join(bytes(entry.bytes) for entry in content).decode()
        self.assertEqual(spelled.removesuffix("<|im_end|>"), choice.message.content)
        for entry in content:
            self.assertEqual(len(entry.top_logprobs), 4)
            self.assertEqual(entry.top_logprobs[0].logprob, entry.logprob)
            self.assertEqual(sorted(entry.top_logprobs, key=lambda top: -top.logprob), entry.top_logprobs)
        streamed = [entry for chunk in self.chat(logprobs=True, top_logprobs=4, stream=True)
                    if chunk.choices[0].logprobs for entry in chunk.choices[0].logprobs.content]
        self.assertEqual(streamed, content)

    def test_fields_of_vllm(self):
        extra = {"prompt_logprobs": 1, "return_token_ids": True, "min_tokens": 3, "top_k": 5, "ignore_eos": True}
        answer = self.complete(extra_body=extra)
        choice = answer.choices[0].model_extra
        self.assertEqual(len(choice["token_ids"]), 12)
        self.assertEqual(len(choice["prompt_logprobs"]), len(choice["prompt_token_ids"]))
        self.assertEqual(answer.usage.prompt_tokens, len(choice["prompt_token_ids"]))
        named = self.complete(logprobs=1, extra_body={"return_tokens_as_token_ids": True, "return_token_ids": True})
        self.assertEqual(named.choices[0].logprobs.tokens,
                         [f"token_id:{id}" for id in named.choices[0].model_extra["token_ids"]])

    def test_words_biases_and_allowed_tokens(self):
        words = self.complete().choices[0].text.replace(",", " ").split()
        word = next(word for word in words if len(word) > 3)
        without = self.complete(extra_body={"bad_words": [word]}).choices[0].text
        self.assertNotIn(word, without.replace(",", " ").split())
        allowed = self.complete(extra_body={"allowed_token_ids": [263, 14], "return_token_ids": True}).choices[0]
        self.assertLessEqual(set(allowed.model_extra["token_ids"]), {263, 14})
        biased = self.complete(logit_bias={"263": 100}, extra_body={"return_token_ids": True}).choices[0]
        self.assertEqual(set(biased.model_extra["token_ids"]), {263})

    def test_seeds_and_several_answers(self):
        first, second = (self.complete(n=3, seed=7, temperature=1) for _ in range(2))
        self.assertEqual([c.text for c in first.choices], [c.text for c in second.choices])
        self.assertGreater(len({c.text for c in first.choices}), 1)

    def test_a_continued_message(self):
        messages = [*QUESTION, {"role": "assistant", "content": "3 + 4"}]
        extra = {"add_generation_prompt": False, "continue_final_message": True, "echo": True}
        content = self.chat(messages=messages, extra_body=extra).choices[0].message.content
        self.assertTrue(content.startswith("3 + 4 ="), content)

    def test_errors_are_of_the_right_class(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.complete(temperature=9)
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.NotFoundError):
            self.chat(model="other")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.complete(prompt=[5] * 5000)
        self.assertIn("maximum context length is", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
