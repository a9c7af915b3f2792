"""Structured outputs and tool calls over HTTP, with the real model: every answer is validated.

  tools_and_structure_test.py REPRISE MODEL_DIR"""

import json
import re
import sys
import threading
import unittest

import jsonschema
import serve_test

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "mood": {"enum": ["glad", "sad", "glum"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 3},
    },
    "required": ["name", "age", "mood", "tags"],
    "additionalProperties": False,
}
ADD = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1, "maximum": 99}, "b": {"enum": [219, 220, 233]}},
       "required": ["a", "b"], "additionalProperties": False}
GREET = {"type": "object", "properties": {"who": {"enum": ["Anna", "Ben"]}}, "required": ["who"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": ADD}},
         {"type": "function", "function": {"name": "greet", "parameters": GREET}}]
PARAMETERS = {"add": ADD, "greet": GREET}
NAMED = {"type": "function", "function": {"name": "add"}}


def chat(**fields):
    return {"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 400, "temperature": 1.0,
            "seed": 3, **fields}


def completion(**fields):
    return {"prompt": "Once upon a time", "max_tokens": 400, "temperature": 1.0, "seed": 3, **fields}


def schema_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def validate(schema, text):
    jsonschema.Draft202012Validator(schema).validate(json.loads(text))


class ToolsAndStructure(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # There is so little room for keys and values that requests which run beside others are preempted.
        cls.server = serve_test.Server(
            "--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--max-model-len", "512",
            "--kv-cache-memory-bytes", "2M")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def post(self, path, body):
        status, answer = self.server.post(path, body)
        self.assertEqual(status, 200, answer)
        return answer["choices"]

    def stream(self, path, body):
        response, text = self.server.request("POST", path, {**body, "stream": True})
        self.assertEqual(response.status, 200, text)
        events = [line[len("data: "):] for line in text.decode().split("\n") if line.startswith("data: ")]
        self.assertEqual(events[-1], "[DONE]")
        return [choice for event in events[:-1] for choice in json.loads(event)["choices"]]

    def test_json_schema(self):
        for fields in ({"response_format": schema_format(PERSON)}, {"structured_outputs": {"json": PERSON}},
                       {"guided_json": PERSON}, {"structured_outputs": {"json": PERSON, "disable_any_whitespace": True}}):
            with self.subTest(fields):
                choice, = self.post(CHAT, chat(**fields))
                validate(PERSON, choice["message"]["content"])
                self.assertEqual(choice["finish_reason"], "stop")
                choice, = self.post(COMPLETIONS, completion(**fields))
                validate(PERSON, choice["text"])

    def test_other_specs(self):
        specs = [("regex", "[0-9]{3}-[a-f]{2,4}"), ("choice", [str(n) for n in range(219, 234)]),
                 ("grammar", 'root ::= "(" root ")" | [0-9]')]
        for seed in range(5):
            for kind, spec in specs:
                text = self.post(COMPLETIONS, completion(structured_outputs={kind: spec}, seed=seed))[0]["text"]
                if kind == "choice":
                    self.assertIn(text, spec)
                else:
                    self.assertRegex(text, rf"\A{spec if kind == 'regex' else '[(]*[0-9][)]*'}\Z")
                    self.assertEqual(text.count("("), text.count(")"))
        choice, = self.post(CHAT, chat(response_format={"type": "json_object"}))
        if choice["finish_reason"] == "stop":
            self.assertIsInstance(json.loads(choice["message"]["content"]), dict)

    def test_streams(self):
        parts = self.stream(CHAT, chat(response_format=schema_format(PERSON)))
        validate(PERSON, "".join(part["delta"].get("content") or "" for part in parts))
        self.assertEqual(parts[-1]["finish_reason"], "stop")

    def test_many_answers_with_logprobs_penalties_and_little_memory(self):
        results, threads = [], []
        body = chat(response_format=schema_format(PERSON), n=4, logprobs=True, top_logprobs=2, presence_penalty=1.0)
        for seed in range(6):
            threads.append(threading.Thread(
                target=lambda seed=seed: results.append(self.server.post(CHAT, {**body, "seed": seed}))))
            threads[-1].start()
        for thread in threads:
            thread.join()
        texts = set()
        for status, answer in results:
            self.assertEqual(status, 200, answer)
            self.assertEqual(len(answer["choices"]), 4)
            for choice in answer["choices"]:
                self.assertEqual(choice["finish_reason"], "stop")
                text = choice["message"]["content"]
                validate(PERSON, text)
                tokens = choice["logprobs"]["content"]
                self.assertEqual(b"".join(bytes(token["bytes"]) for token in tokens).decode(), text)
                texts.add(text)
        self.assertGreater(len(texts), 1)
        self.assertGreater(self.server.metric("vllm:num_preemptions_total"), 0)

    def test_reasoning_that_was_answered_can_be_sent_back(self):
        server = serve_test.Server("--trust-request-chat-template", "--reasoning-parser", "openai_gptoss")
        self.addCleanup(server.stop)
        text = "<|channel|>analysis<|message|>why<|end|><|start|>assistant<|channel|>final<|message|>b"
        status, said = server.post(CHAT, chat(structured_outputs={"choice": [text]}))
        self.assertEqual(status, 200, said)
        message = said["choices"][0]["message"]
        self.assertEqual((message["reasoning"], message["content"]), ("why", "b"))
        template = "{% for m in messages %}[{{ m.role }} {{ m.reasoning_content }}] {{ m.content }}{% endfor %}"
        _, found = server.post("/tokenize", {"chat_template": template, "messages": [message]})
        self.assertEqual(server.post("/detokenize", {"tokens": found["tokens"]})[1]["prompt"], "[assistant why] b")

    def test_parameters_that_leave_no_token_are_refused_or_end_the_answer(self):
        digits = {"structured_outputs": {"regex": "[0-9]{3}"}}
        status, answer = self.server.post(COMPLETIONS, completion(allowed_token_ids=[2], min_tokens=2))
        self.assertEqual(status, 400, answer)
        self.assertIn("min_tokens", answer["error"]["message"])
        self.post(COMPLETIONS, completion(repetition_penalty=1e-45, max_tokens=20))
        _, letters = self.server.post("/tokenize", {"prompt": "x", "add_special_tokens": False})
        choice, = self.post(COMPLETIONS, completion(allowed_token_ids=letters["tokens"], **digits))
        self.assertEqual((choice["finish_reason"], choice["stop_reason"], choice["text"]), ("length", "no_allowed_token", ""))
        # The only token that the grammar allows is EOS, which min_tokens forbids.
        choice, = self.post(COMPLETIONS, completion(structured_outputs={"grammar": 'root ::= ""'}, min_tokens=4))
        self.assertEqual((choice["finish_reason"], choice["text"]), ("stop", ""))
        choice, = self.post(COMPLETIONS, completion(min_tokens=9, **digits))
        self.assertRegex(choice["text"], r"\A[0-9]{3}\Z")

    def test_limits_do_not_hit_honest_schemas(self):
        """What zod 4 and pydantic write; long texts to their end; many tools."""
        safe = 9007199254740991
        rules = [{"type": "string", "maxLength": 500}, {"type": "string", "maxLength": 65536}, {"type": "integer", "minimum": -safe, "maximum": safe},
                 {"type": "string", "format": "date", "pattern": "^\\d{4}-\\d{2}-\\d{2}$"}, {"type": "string", "format": "uuid", "pattern": "^[0-9a-f-]{36}$"},
                 {"type": "string", "format": "email", "maxLength": 100}, {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"type": "number"}},
                 {"type": "string", "pattern": "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"}, {"type": "array", "items": {"type": "string", "maxLength": 4}, "uniqueItems": True},
                 {"type": "number", "multipleOf": 0.01}, {"type": "string", "enum": [f"value {i}" for i in range(5000)]}]
        for rule in rules:
            schema = {"type": "object", "properties": {"v": rule}, "required": ["v"]}
            with self.subTest(rule=str(rule)[:80]):
                choice, = self.post(CHAT, chat(response_format=schema_format(schema), max_tokens=400))
                if choice["finish_reason"] == "stop":
                    validate(schema, choice["message"]["content"])
        parameters = {"type": "object", "properties": {f"p{i}": {"type": ["string", "integer", "number", "boolean"][i % 4]} for i in range(7)}}
        tools = [{"type": "function", "function": {"name": f"tool_{i}", "parameters": parameters}} for i in range(40)]
        choice, = self.post(CHAT, chat(tools=tools, tool_choice="required", parallel_tool_calls=False))
        self.assertIn(choice["finish_reason"], ("tool_calls", "length"))

    def test_an_expensive_grammar_fails_alone(self):
        """The grammar is short and compiles at once; its cost grows with the answer."""
        results = []
        hostile = completion(structured_outputs={"grammar": "root ::= " + "[^x]* " * 200 + '"y"'}, n=16)
        attacker = threading.Thread(target=lambda: results.append(self.server.post(COMPLETIONS, hostile)))
        alone = self.post(COMPLETIONS, completion(max_tokens=200, ignore_eos=True))
        attacker.start()
        for _ in range(3):
            self.assertEqual(self.post(COMPLETIONS, completion(max_tokens=200, ignore_eos=True)), alone)
            validate(PERSON, self.post(CHAT, chat(response_format=schema_format(PERSON)))[0]["message"]["content"])
        attacker.join()
        (status, answer), = results
        self.assertEqual((status, answer["error"]["type"]), (400, "BadRequestError"), answer)
        self.assertIn("structured output: the grammar or pattern is too", answer["error"]["message"])

    def test_a_named_call(self):
        choice, = self.post(CHAT, chat(tools=TOOLS, tool_choice=NAMED))
        call, = choice["message"]["tool_calls"]
        self.assertEqual((call["type"], call["function"]["name"]), ("function", "add"))
        self.assertIsNone(choice["message"]["content"])
        validate(ADD, call["function"]["arguments"])
        parts = self.stream(CHAT, chat(tools=TOOLS, tool_choice=NAMED))
        calls = [call for part in parts for call in part["delta"].get("tool_calls", [])]
        self.assertEqual([call["function"].get("name") for call in calls if "id" in call], ["add"])
        validate(ADD, "".join(call["function"]["arguments"] for call in calls))

    def check_calls(self, calls):
        self.assertGreater(len(calls), 0)
        self.assertEqual(len({call["id"] for call in calls}), len(calls))
        for call in calls:
            validate(PARAMETERS[call["function"]["name"]], call["function"]["arguments"])

    def test_required_calls(self):
        for seed in range(4):
            choice, = self.post(CHAT, chat(tools=TOOLS, tool_choice="required", parallel_tool_calls=seed % 2 == 0, seed=seed))
            if choice["finish_reason"] == "length":
                continue  # so many calls
            self.assertEqual(choice["finish_reason"], "tool_calls")
            calls = choice["message"]["tool_calls"]
            self.check_calls(calls)
            if seed % 2 == 1:
                self.assertEqual(len(calls), 1)

    def test_a_call_that_the_model_writes_by_itself(self):
        # A pattern replaces a model that has learnt to call functions.
        pattern = '<tool_call>\\{"name": "greet", "arguments": \\{"who": "(Anna|Ben)"\\}\\}</tool_call>'
        body = chat(tools=TOOLS, structured_outputs={"regex": pattern})
        choice, = self.post(CHAT, body)
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.check_calls(choice["message"]["tool_calls"])
        parts = self.stream(CHAT, body)
        self.check_calls([call for part in parts for call in part["delta"].get("tool_calls", [])])
        self.assertEqual("".join(part["delta"].get("content") or "" for part in parts), "")
        self.assertEqual(parts[-1]["finish_reason"], "tool_calls")

    def test_a_conversation_with_calls(self):
        messages = [{"role": "user", "content": "Add."},
                    {"role": "assistant", "content": None, "tool_calls": [
                        {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 219}'}}]},
                    {"role": "tool", "tool_call_id": "1", "content": "220"}]
        choice, = self.post(CHAT, chat(messages=messages, tools=TOOLS, tool_choice=NAMED))
        self.check_calls(choice["message"]["tool_calls"])

    def test_refusals(self):
        for param, fields in (
                ("response_format", {"response_format": schema_format({"not": {}})}),
                ("structured_outputs", {"structured_outputs": {"regex": "("}}),
                ("guided_grammar", {"guided_grammar": "root ::= missing"}),
                ("tool_choice", {"tools": TOOLS, "tool_choice": "required", "guided_regex": "a"})):
            with self.subTest(param):
                status, answer = self.server.post(CHAT, chat(**fields))
                self.assertEqual((status, answer["error"]["param"]), (400, param), answer)


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
