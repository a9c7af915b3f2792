"""The openai package: schemas from pydantic, and tools, against the bundled model."""

import json
import typing
import unittest

import openai
import pydantic
from clients import NAME, QUESTION, TIMEOUT, WithServer


class Person(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    name: typing.Annotated[str, pydantic.Field(max_length=12)]
    age: typing.Annotated[int, pydantic.Field(ge=0, le=150)]
    mood: typing.Literal["glad", "sad"]


class Weather(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    city: typing.Literal["Oslo", "Bonn"]


TOOL = {"type": "function", "function": {"name": "weather", "parameters": Weather.model_json_schema()}}


class OpenaiStructure(WithServer, unittest.TestCase):
    options = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")

    def setUp(self):
        self.client = openai.OpenAI(base_url=self.url, api_key="none", timeout=TIMEOUT, max_retries=0)

    def tearDown(self):
        self.client.close()

    def chat(self, create, **fields):
        return create(**{"model": NAME, "messages": QUESTION, "temperature": 1, "seed": 1, "max_tokens": 200, **fields})

    def test_a_parsed_answer(self):
        answer = self.chat(self.client.chat.completions.parse, response_format=Person)
        self.assertIsInstance(answer.choices[0].message.parsed, Person)

    def test_a_streamed_answer(self):
        with self.chat(self.client.chat.completions.stream, response_format=Person) as stream:
            for _ in stream:
                pass
            self.assertIsInstance(stream.get_final_completion().choices[0].message.parsed, Person)

    def test_forced_calls(self):
        for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
            answer = self.chat(
                self.client.chat.completions.create, tools=[TOOL], tool_choice=choice, parallel_tool_calls=False)
            call, = answer.choices[0].message.tool_calls
            Weather.model_validate_json(call.function.arguments)
            said = answer.choices[0].message.model_dump(exclude_none=True)
            result = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
            after = self.chat(self.client.chat.completions.create, messages=[*QUESTION, said, result], max_tokens=4)
            self.assertEqual(after.choices[0].message.role, "assistant")

    def test_a_streamed_call(self):
        arguments = ""
        for chunk in self.chat(self.client.chat.completions.create, tools=[TOOL], stream=True,
                               tool_choice={"type": "function", "function": {"name": "weather"}}):
            for call in chunk.choices[0].delta.tool_calls or []:
                arguments += call.function.arguments or ""
        self.assertIn(json.loads(arguments)["city"], ("Oslo", "Bonn"))

    def test_tools_that_the_model_may_leave_alone(self):
        answer = self.chat(self.client.chat.completions.create, tools=[TOOL], max_tokens=8)
        self.assertEqual(answer.choices[0].message.role, "assistant")


if __name__ == "__main__":
    unittest.main()
