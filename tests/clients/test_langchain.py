"""langchain-openai: chat models, completion models and their streams."""

import asyncio
import unittest

from clients import NAME, STORY, TIMEOUT, WithServer
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI, OpenAI


class LangChain(WithServer, unittest.TestCase):
    def model(self, **fields):
        return ChatOpenAI(model=NAME, base_url=self.url, api_key="none", temperature=0, max_tokens=12,
                          timeout=TIMEOUT, max_retries=0, **fields)

    def test_a_conversation(self):
        answer = self.model().invoke([
            SystemMessage("You compute."), HumanMessage("What is 1 + 1?"), AIMessage("1 + 1 = 2."),
            HumanMessage([{"type": "text", "text": "What is 3 + 4?"}])])
        self.assertTrue(answer.content)
        self.assertEqual(answer.usage_metadata["output_tokens"], answer.response_metadata["token_usage"]["completion_tokens"])

    def test_a_chain_and_its_stream(self):
        chain = ChatPromptTemplate.from_messages([("user", "What is {a} + {b}?")]) | self.model() | StrOutputParser()
        whole = chain.invoke({"a": 3, "b": 4})
        self.assertEqual("".join(chain.stream({"a": 3, "b": 4})), whole)
        self.assertEqual(asyncio.run(chain.ainvoke({"a": 3, "b": 4})), whole)
        self.assertEqual(chain.batch([{"a": 3, "b": 4}] * 4), [whole] * 4)

    def test_usage_of_a_stream(self):
        parts = list(self.model(stream_usage=True).stream("What is 3 + 4?"))
        total = parts[0]
        for part in parts[1:]:
            total += part
        self.assertGreater(total.usage_metadata["output_tokens"], 0)

    def test_logprobs(self):
        answer = self.model(logprobs=True, top_logprobs=2).invoke("What is 3 + 4?")
        content = answer.response_metadata["logprobs"]["content"]
        self.assertEqual(len(content), answer.usage_metadata["output_tokens"])

    def test_a_completion_model(self):
        model = OpenAI(model=NAME, base_url=self.url, api_key="none", temperature=0, max_tokens=12, max_retries=0)
        whole = model.invoke(STORY)
        self.assertTrue(whole)
        self.assertEqual("".join(model.stream(STORY)), whole)


if __name__ == "__main__":
    unittest.main()
