"""OpenAI's Responses API, with the openai package and with openai-agents, which speaks only it by default."""

import asyncio
import typing
import unittest

import agents
import openai
from clients import NAME, TIMEOUT, WithServer

PARAMETERS = {"type": "object", "properties": {"city": {"enum": ["Rome"]}}, "required": ["city"],
              "additionalProperties": False}
TOOL = {"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": True}


class Responses(WithServer, unittest.TestCase):
    options = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")

    def setUp(self):
        self.client = openai.OpenAI(base_url=self.url, api_key="none", timeout=TIMEOUT, max_retries=0)

    def tearDown(self):
        self.client.close()

    def create(self, **fields):
        return self.client.responses.create(
            **{"model": NAME, "input": "What is 3 + 4?", "temperature": 0, "max_output_tokens": 200, **fields})

    def test_response_and_its_stream(self):
        whole = self.create(max_output_tokens=8)
        self.assertEqual((whole.status, whole.incomplete_details.reason), ("incomplete", "max_output_tokens"))
        events = list(self.create(max_output_tokens=8, stream=True))
        self.assertEqual([events[0].type, events[-1].type], ["response.created", "response.incomplete"])
        self.assertEqual("".join(e.delta for e in events if e.type == "response.output_text.delta"), whole.output_text)
        self.assertEqual(events[-1].response.output_text, whole.output_text)
        self.assertEqual(events[-1].response.usage, whole.usage)

    def test_conversation_that_the_server_keeps(self):
        first = self.create()
        second = self.create(input="More", previous_response_id=first.id)
        self.assertGreater(second.usage.input_tokens, first.usage.total_tokens)
        self.assertEqual(self.client.responses.retrieve(first.id).output_text, first.output_text)
        self.client.responses.delete(first.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(first.id)

    def test_tools_and_formats(self):
        whole = self.create(tools=[TOOL, {"type": "web_search"}], tool_choice="required",
                            parallel_tool_calls=False)
        (call,) = [item for item in whole.output if item.type == "function_call"]
        with self.client.responses.stream(model=NAME, input="What is 3 + 4?", temperature=0, tools=[TOOL], tool_choice="required", parallel_tool_calls=False) as stream:
            for _ in stream:
                pass
            (streamed,) = stream.get_final_response().output
        self.assertEqual((streamed.name, streamed.arguments), (call.name, call.arguments))
        answer = self.create(tools=[TOOL], input=[
            {"role": "user", "content": "Weather?"}, call.to_dict(),
            {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}])
        self.assertIn(answer.status, ("completed", "incomplete"))
        shaped = self.create(text={"format": {"type": "json_schema", "name": "place", "schema": PARAMETERS}})
        self.assertRegex(shaped.output_text, r'^\{\s*"city"')

    def test_agents(self):
        client = openai.AsyncOpenAI(base_url=self.url, api_key="none", timeout=TIMEOUT, max_retries=0)
        agents.set_tracing_disabled(True)
        calls = []

        @agents.function_tool
        def weather(city: typing.Literal["Rome"]) -> str:
            calls.append(city)
            return "sunny"

        agent = agents.Agent(
            name="tiny", instructions="Be brief.", tools=[weather],
            model=agents.OpenAIResponsesModel(model=NAME, openai_client=client),
            model_settings=agents.ModelSettings(temperature=0, max_tokens=200, tool_choice="weather"),
            tool_use_behavior="stop_on_first_tool")

        async def run():
            result = await agents.Runner.run(agent, "Weather in Rome?", max_turns=3)
            await client.close()
            return result

        self.assertEqual(asyncio.run(run()).final_output, "sunny")
        self.assertEqual(calls, ["Rome"])


if __name__ == "__main__":
    unittest.main()
