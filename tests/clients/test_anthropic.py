"""The anthropic package: what it sends is accepted and what it gets fits its types."""

import unittest

import anthropic
from clients import NAME, QUESTION, TIMEOUT, WithServer

TOOL = {"name": "weather", "description": "of a city", "input_schema": {
    "type": "object", "properties": {"city": {"enum": ["Rome"]}}, "required": ["city"]}}
GREEDY = {"temperature": 0}  # which the package itself no longer offers


class Anthropic(WithServer, unittest.TestCase):
    options = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")

    def setUp(self):
        self.client = anthropic.Anthropic(base_url=self.url.removesuffix("/v1"), api_key="none", timeout=TIMEOUT, max_retries=0)

    def tearDown(self):
        self.client.close()

    def create(self, **fields):
        return self.client.messages.create(
            **{"model": NAME, "messages": QUESTION, "max_tokens": 8, "extra_body": GREEDY, **fields})

    def test_message_and_its_stream(self):
        whole = self.create(system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}])
        self.assertEqual((whole.role, whole.type, whole.usage.output_tokens), ("assistant", "message", 8))
        self.assertEqual(whole.stop_reason, "max_tokens")
        whole = self.create()
        with self.client.messages.stream(model=NAME, messages=QUESTION, max_tokens=8, extra_body=GREEDY) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, whole.content[0].text)
        self.assertEqual(final.content[0].text, text)
        self.assertEqual((final.usage, final.stop_reason), (whole.usage, whole.stop_reason))

    def test_tools(self):
        for choice in ({"type": "tool", "name": "weather"}, {"type": "any", "disable_parallel_tool_use": True}):
            whole = self.create(tools=[TOOL], tool_choice=choice, max_tokens=200)
            self.assertEqual(whole.stop_reason, "tool_use")
            (call,) = [block for block in whole.content if block.type == "tool_use"]
            self.assertEqual((call.name, list(call.input)), ("weather", ["city"]))
            with self.client.messages.stream(model=NAME, messages=QUESTION, max_tokens=200, extra_body=GREEDY, tools=[TOOL],
                                             tool_choice=choice) as stream:
                final = stream.get_final_message()
            self.assertEqual([block.input for block in final.content if block.type == "tool_use"], [call.input])
            answer = self.create(tools=[TOOL], messages=[
                *QUESTION, {"role": "assistant", "content": whole.to_dict()["content"]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}]}])
            self.assertEqual(answer.usage.output_tokens, 8)

    def test_counting(self):
        counted = self.client.messages.count_tokens(model=NAME, messages=QUESTION)
        self.assertEqual(counted.input_tokens, self.create().usage.input_tokens)

    def test_errors(self):
        with self.assertRaises(anthropic.NotFoundError):
            self.create(model="nobody")
        with self.assertRaisesRegex(anthropic.BadRequestError, "image"):
            self.create(messages=[{"role": "user", "content": [
                {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}]}])


if __name__ == "__main__":
    unittest.main()
