"""The ollama package: the routes by which editors and Open WebUI find a model and talk to it."""

import unittest

import ollama
from clients import NAME, QUESTION, STORY, WithServer

OPTIONS = {"temperature": 0, "num_predict": 6}


class Ollama(WithServer, unittest.TestCase):
    options = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")

    def setUp(self):
        self.client = ollama.Client(host=self.url.removesuffix("/v1"))

    def test_models(self):
        self.assertEqual([model.model for model in self.client.list().models], [NAME])
        self.assertEqual([model.model for model in self.client.ps().models], [NAME])
        shown = self.client.show(NAME)
        self.assertEqual(shown.capabilities, ["completion", "tools"])
        self.assertGreater(shown.modelinfo["reprise.context_length"], 0)

    def test_chat_and_its_stream(self):
        whole = self.client.chat(NAME, messages=QUESTION, options=OPTIONS)
        self.assertEqual((whole.done_reason, whole.eval_count), ("length", 6))
        parts = list(self.client.chat(NAME + ":latest", messages=QUESTION, options=OPTIONS, stream=True))
        self.assertEqual("".join(part.message.content for part in parts), whole.message.content)
        self.assertEqual((parts[-1].done, parts[-1].eval_count), (True, 6))

    def test_generate(self):
        whole = self.client.generate(NAME, "What is 3 + 4?", options=OPTIONS)
        self.assertEqual(whole.response, self.client.chat(NAME, messages=QUESTION, options=OPTIONS).message.content)

    def test_loading_and_raw_prompts(self):
        for loaded in (self.client.generate(NAME), self.client.generate(NAME, keep_alive=0), self.client.chat(NAME, messages=[])):
            self.assertEqual((loaded.done, loaded.done_reason), (True, "load"))
        raw = self.client.generate(NAME, STORY, raw=True, options=OPTIONS)
        self.assertEqual((raw.eval_count, raw.done_reason), (6, "length"))
        self.assertNotEqual(raw.response, self.client.generate(NAME, STORY, options=OPTIONS).response)
        self.assertGreater(raw.eval_duration, 0)

    def test_format(self):
        schema = {"type": "object", "properties": {"city": {"enum": ["Rome"]}}, "required": ["city"]}
        whole = self.client.chat(NAME, messages=QUESTION, format=schema, options={"temperature": 0, "num_predict": 200})
        self.assertRegex(whole.message.content, r'^\{\s*"city"')

    def test_errors(self):
        with self.assertRaisesRegex(ollama.ResponseError, "does not exist") as raised:
            self.client.chat("nobody", messages=QUESTION)
        self.assertEqual(raised.exception.status_code, 404)


if __name__ == "__main__":
    unittest.main()
