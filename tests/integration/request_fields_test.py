#!/usr/bin/env python3
"""No field of a request is accepted and ignored in silence: the sweep over request_fields.py.

    request_fields_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER [--vllm FOLDER] [--openai]

`--vllm`: also hold the table against the request models of vLLM's unpacked package. `--openai`: also against those of the
package openai. Uses only Python's standard library otherwise.
"""

import argparse
import ast
import copy
import json
import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

import architectures_test
import lora_serve_test
import request_fields
import serve_test
from request_fields import BASES, EFFECT, ERROR, PATHS, ROWS, SAME, UNUSED

SOURCE = VLLM = None
OPENAI = False
# Fields inside structures that the server passes on as a whole, or that have their own tests.
NOT_ROWS = {"remote_host", "remote_port", "remote_request_id"}  # kv_transfer_test.py


def set_field(body, path, value):
    """Sets the field in place. "[]" is the last element."""
    *parents, name = path.split(".")
    for parent in parents:
        body = body[parent.removesuffix("[]")]
        if parent.endswith("[]"):
            body = body[-1]
    body[name] = value


def add_special_token(folder, text, token_id):
    """Lets the tokenizer put a token in front of each text, also in front of a pair."""
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    token, first, second = ({"SpecialToken": {"id": text, "type_id": 0}}, *(
        {"Sequence": {"id": name, "type_id": 0}} for name in "AB"))
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing", "single": [token, first], "pair": [token, first, second],
        "special_tokens": {text: {"id": text, "ids": [token_id], "tokens": [text]}}}
    path.write_text(json.dumps(tokenizer), encoding="utf-8")


NOISE = {"created", "created_at", "item_id", "call_id"}


def without_noise(answer):
    """The answer without what differs between two equal requests."""
    if isinstance(answer, dict):
        return {name: "mine" in value if name == "id" and isinstance(value, str) else without_noise(value)
                for name, value in answer.items() if name not in NOISE and not name.endswith("_duration")}
    return [without_noise(part) for part in answer] if isinstance(answer, list) else answer


class Sweep(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="reprise_fields_")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.servers, cls.seen = {}, {}
        cls.model = serve_test.MODEL

    @classmethod
    def tearDownClass(cls):
        serve_test.MODEL = cls.model
        for server in cls.servers.values():
            server.stop(9)

    @classmethod
    def start(cls, name):
        model = cls.folder / name
        options, environment = [], {}
        if name in ("vectors", "scores"):
            golden = "pooling/qwen3-last" if name == "vectors" else "classifiers/qwen3-score"
            shutil.copytree(SOURCE / "tests" / "goldens" / golden, model)
            architectures_test.write_tokenizer(model)
            add_special_token(model, "\u00a1", 94)
            options = ["--served-model-name", "tiny", "--dtype", "float32", "--hf-overrides", '{"is_matryoshka": true}']
        else:
            shutil.copytree(cls.model, model)
            add_special_token(model, "<|endoftext|>", 0)
            options = {
                "text": ["--trust-request-chat-template", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"],
                "reasoning": ["--reasoning-parser", "deepseek_r1"],
                "adapters": ["--enable-lora", "--max-cpu-loras", "8", "--max-logprobs", "-1"],
                "dialects": ["--served-model-name", "tiny", "--chat-template", cls.shown_template(), "--enable-auto-tool-choice",
                             "--tool-call-parser", "hermes"],
            }[name]
            environment = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}
        serve_test.MODEL = str(model)
        return serve_test.Server("--disable-compile-cache", *options, **environment)

    @classmethod
    def shown_template(cls):
        path = cls.folder / "shown.jinja"
        path.write_text("{{ messages | tojson }}{% if tools %}{{ tools | tojson }}{% endif %}{{ x }}{{ reasoning_effort }}"
                        "{{ enable_thinking }}", encoding="utf-8")
        return str(path)

    @classmethod
    def server(cls, name):
        if name not in cls.servers:
            cls.servers[name] = cls.start(name)
        return cls.servers[name]

    def ids(self, text):
        _, answer = self.server("text").post("/tokenize", {"prompt": text, "add_special_tokens": False})
        return answer["tokens"]

    def value_of(self, value, schema):
        if not isinstance(value, str) or not value.startswith("$"):
            return value
        if value == "$SALT":
            return schema
        if value == "$OTHER":
            return schema == "ChatCompletionRequest"
        if value == "$ADAPTER":
            return str(lora_serve_test.write_adapter(self.folder / "adapter", 1))
        if value in ("$SPACES", "$QUOTES"):
            (token,) = self.ids("\n" if value == "$SPACES" else '"')
            return {str(token): 100}
        _, answer = self.server("text").post(PATHS[schema], {**BASES[schema], "return_token_ids": True})
        return answer["choices"][0]["token_ids"][2:3]  # "$IDS"

    def body(self, schema, row):
        body = copy.deepcopy({**BASES[schema], **row.base})
        return {name: self.value_of(value, schema) for name, value in body.items()}

    def observe(self, server, schema, body, counts_hits):
        """Status, answer and unused fields of a request, and what it changes."""
        is_adapter = schema in ("LoadLoRAAdapterRequest", "UnloadLoRAAdapterRequest")
        if is_adapter:
            self.prepare_adapters(server, fox=schema == "UnloadLoRAAdapterRequest")
        hits = server.metric("vllm:prefix_cache_hits_total") if counts_hits else 0
        response, text = server.request("POST", PATHS[schema], body)
        kind = response.headers["Content-Type"] or ""
        if kind.startswith("text/event-stream"):
            named = text.startswith(b"event: ")
            answer = [json.loads(line[6:]) for line in text.splitlines() if line.startswith(b"data: ")] if named \
                else serve_test.events(text)
        else:
            answer = json.loads(text) if kind == "application/json" else text.decode()
        if kind.startswith("application/x-ndjson"):
            answer = [json.loads(line) for line in text.splitlines()]
        models = json.loads(server.request("GET", "/v1/models")[1])["data"] if is_adapter else []
        hits = server.metric("vllm:prefix_cache_hits_total") - hits if counts_hits else 0
        unused = (response.headers["X-Unused-Fields"] or "").split(", ")
        return response.status, without_noise(answer), hits, [model["id"] for model in models], unused

    def prepare_adapters(self, server, fox):
        path = self.value_of("$ADAPTER", None)
        for name in ("fox", "owl", "third"):
            server.request("POST", "/v1/unload_lora_adapter", {"lora_name": name})
        for name in ("there", *(["fox"] if fox else [])):
            server.request("POST", "/v1/load_lora_adapter", {"lora_name": name, "lora_path": path})

    def outcome(self, schema, row):
        server = self.server(row.server)
        body = self.body(schema, row)
        counts_hits = row.path == "cache_salt"
        key = (row.server, schema, counts_hits, json.dumps(body, sort_keys=True))
        if key not in self.seen:
            # The second answer finds the prompt in the cache, like all later ones.
            self.observe(server, schema, body, counts_hits)
            self.seen[key] = self.observe(server, schema, body, counts_hits)
        before = self.seen[key]
        set_field(body, row.path, self.value_of(row.value, schema))
        status, answer, hits, models, unused = self.observe(server, schema, body, counts_hits)
        parts = row.path.split(".")
        if any(".".join(parts[:count]).removesuffix("[]") in unused for count in range(1, len(parts) + 1)):
            return UNUSED
        if "this build has no structured output" in json.dumps([before[1], answer]):
            self.skipTest("needs xgrammar")
        if status >= 400 and before[0] < 400:
            error = answer["error"] if isinstance(answer["error"], dict) else {"message": answer["error"]}
            name = parts[0].removesuffix("[]")
            self.assertTrue(name in (error.get("param") or "") or name in error["message"], (row.path, answer))
            return ERROR
        return EFFECT if (status, answer, hits, models) != before[:4] else None

    def check(self, schema):
        for of, row in ROWS:
            if of != schema:
                continue
            with self.subTest(schema, path=row.path):
                outcome = self.outcome(schema, row)
                if row.expect == SAME:
                    self.assertIsNone(outcome)
                    continue
                self.assertIsNotNone(outcome, "accepted and ignored in silence")
                if row.expect is not None:
                    self.assertEqual(outcome, row.expect)

    def test_completions(self):
        self.check("CompletionRequest")

    def test_chats(self):
        self.check("ChatCompletionRequest")

    def test_tokenizing(self):
        self.check("TokenizeRequest")
        self.check("DetokenizeRequest")

    def test_vectors(self):
        self.check("EmbeddingRequest")

    def test_scores(self):
        for schema in ("ClassifyRequest", "ScoreRequest", "RerankRequest"):
            self.check(schema)

    def test_messages_of_anthropic(self):
        self.check("MessagesRequest")
        self.check("CountTokensRequest")

    def test_responses(self):
        self.check("ResponsesRequest")

    def test_chats_of_ollama(self):
        for schema in ("OllamaChatRequest", "OllamaGenerateRequest", "OllamaShowRequest"):
            self.check(schema)

    def test_vectors_of_ollama(self):
        self.check("OllamaEmbedRequest")
        self.check("OllamaEmbeddingsRequest")

    def test_adapters(self):
        self.check("LoadLoRAAdapterRequest")
        self.check("UnloadLoRAAdapterRequest")

    def test_minus_one_log_probabilities_are_those_of_all_tokens(self):
        body = {**BASES["CompletionRequest"], "max_tokens": 1, "logprobs": -1, "return_tokens_as_token_ids": True}
        status, answer = self.server("adapters").post("/v1/completions", body)
        self.assertEqual(status, 200, answer)
        self.assertEqual(len(answer["choices"][0]["logprobs"]["top_logprobs"][0]), 1024)
        status, answer = self.server("text").post("/v1/completions", body)
        self.assertEqual((status, answer["error"]["param"]), (400, "logprobs"), answer)

    def test_parameters_of_a_query(self):
        server = self.server("text")
        response, _ = server.request("GET", "/health?verbose=1&full=2")
        self.assertEqual(response.headers["X-Unused-Fields"], "?verbose, ?full")
        response, _ = server.request("GET", "/health")
        self.assertIsNone(response.headers["X-Unused-Fields"])

    def test_the_log_names_a_field_once(self):
        server = self.server("text")
        for _ in range(2):
            server.post("/v1/completions", {**BASES["CompletionRequest"], "only_here": 1, "max_tokens": 1})
        lines = [line for line in server.log_so_far().splitlines() if "only_here" in line]
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("without effect", lines[0])


class Table(unittest.TestCase):
    def paths_of(self, schema):
        return {row.path for of, row in ROWS if of == schema}

    def names(self):
        return {part.removesuffix("[]") for _, row in ROWS for part in row.path.split(".")} | NOT_ROWS

    def test_has_every_field_of_the_description(self):
        server = serve_test.Server()
        self.addCleanup(server.stop, 9)
        described = json.loads(server.request("GET", "/openapi.json")[1])["components"]["schemas"]

        def walk(schema, prefix, found):
            if "$ref" in schema:
                schema = described[schema["$ref"].rsplit("/", 1)[1]]
            for name, part in schema.get("properties", {}).items():
                path = f"{prefix}.{name}" if prefix else name
                found.add(path)
                walk(part, path, found)
            for part in (*schema.get("anyOf", []), *schema.get("oneOf", [])):
                walk(part, prefix, found)
            if isinstance(schema.get("items"), dict):
                walk(schema["items"], prefix + "[]", found)
            return found

        for schema in BASES:
            with self.subTest(schema):
                missing = walk(described[schema], "", set()) - self.paths_of(schema)
                # Members inside the lists of another field are tested by that field's rows.
                missing = {path for path in missing if not path.startswith("tool_choice.allowed_tools.tools[]")}
                self.assertEqual(missing, set(), "add rows to request_fields.py")

    def test_has_every_field_that_the_server_reads(self):
        folder = SOURCE / "src" / "reprise" / "server"
        read = set()
        for path in (*folder.glob("openai/*_request.cpp"), *folder.glob("dialects/*_request.cpp"), *folder.glob("openai/*_fields.cpp"),
                     folder / "openai" / "chat_messages.cpp", folder / "lora_routes.cpp"):
            text = path.read_text(encoding="utf-8")
            read |= set(re.findall(r'\b(?:fields|inner|message|part|params|item|block|tool|choice|format|options|config|thinking|reasoning|text)\.\w+\(\s*"(\w+)"', text))
            read |= set(re.findall(r'\.name = "(\w+)"', text))
            read |= set(re.findall(r'^    \{"(\w+)", \{', text, re.MULTILINE))
            for names in re.findall(r"present_name\(fields, \{(.*?)\}", text):
                read |= set(re.findall(r'"(\w+)"', names))
        self.assertGreater(len(read), 100)
        self.assertEqual(read - self.names(), set(), "add rows to request_fields.py")

    def test_the_page_names_every_field_that_is_refused_or_has_no_effect(self):
        page = (SOURCE / "docs" / "howto" / "serve.md").read_text(encoding="utf-8")
        for schema, row in ROWS:
            is_named = row.expect in (UNUSED, ERROR) and "." not in row.path
            if is_named and schema in ("CompletionRequest", "ChatCompletionRequest") and row.path != "nobody_knows_this":
                self.assertTrue(f"`{row.path}`" in page, row.path)

    def test_has_every_field_of_vllms_requests(self):
        if VLLM is None:
            self.skipTest("needs --vllm FOLDER")
        classes = {}
        for path in (*VLLM.glob("entrypoints/**/protocol.py"), VLLM / "sampling_params.py", VLLM / "renderers" / "chat_utils.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    classes[node.name] = node

        def fields(name):
            node = classes.get(name)
            if node is None:
                return set()
            own = {item.target.id for item in node.body if isinstance(item, ast.AnnAssign)
                   and "ClassVar" not in ast.unparse(item.annotation) and not item.target.id.startswith("_")}
            return own.union(*(fields(base.id) for base in node.bases if isinstance(base, ast.Name)))

        wanted = {
            "CompletionRequest": ["CompletionRequest"], "ChatCompletionRequest": ["ChatCompletionRequest"],
            "TokenizeRequest": ["TokenizeCompletionRequest", "TokenizeChatRequest"], "DetokenizeRequest": ["DetokenizeRequest"],
            "EmbeddingRequest": ["EmbeddingCompletionRequest", "PoolingCompletionRequest"],
            "ClassifyRequest": ["ClassificationCompletionRequest"],
            "ScoreRequest": ["ScoreTextRequest", "ScoreQueriesDocumentsRequest", "ScoreQueriesItemsRequest", "ScoreDataRequest"],
            "RerankRequest": ["RerankRequest"], "LoadLoRAAdapterRequest": ["LoadLoRAAdapterRequest"],
            "UnloadLoRAAdapterRequest": ["UnloadLoRAAdapterRequest"]}
        for schema, names in wanted.items():
            with self.subTest(schema):
                theirs = set().union(*map(fields, names))
                self.assertTrue(theirs)
                self.assertEqual(theirs - self.paths_of(schema), set())
        for prefix, name in (("stream_options", "StreamOptions"), ("structured_outputs", "StructuredOutputsParams"),
                             ("tools[].function", "FunctionDefinition"), ("tools[]", "ChatCompletionToolsParam"),
                             ("messages[]", "CustomChatCompletionMessageParam")):
            with self.subTest(name):
                theirs = {f"{prefix}.{item}" for item in fields(name)}
                self.assertTrue(theirs)
                self.assertEqual(theirs - self.paths_of("ChatCompletionRequest"), set())

    def test_has_every_field_of_openais_requests(self):
        if not OPENAI:
            self.skipTest("needs --openai")
        from openai.types import completion_create_params, embedding_create_params
        from openai.types.chat import chat_completion_stream_options_param, completion_create_params as chat_params

        for schema, theirs in (("ChatCompletionRequest", chat_params.CompletionCreateParamsBase),
                               ("CompletionRequest", completion_create_params.CompletionCreateParamsBase),
                               ("EmbeddingRequest", embedding_create_params.EmbeddingCreateParams)):
            with self.subTest(schema):
                self.assertEqual(set(theirs.__annotations__) - self.paths_of(schema), set())
        options = {f"stream_options.{name}"
                   for name in chat_completion_stream_options_param.ChatCompletionStreamOptionsParam.__annotations__}
        self.assertEqual(options - self.paths_of("ChatCompletionRequest"), set())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("source", type=Path)
    parser.add_argument("--vllm", type=Path)
    parser.add_argument("--openai", action="store_true")
    arguments, rest = parser.parse_known_args()
    serve_test.BINARY, serve_test.MODEL = arguments.binary, arguments.model
    SOURCE, VLLM, OPENAI = arguments.source, arguments.vllm, arguments.openai
    unittest.main(argv=[sys.argv[0], *rest])
