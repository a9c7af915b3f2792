"""The backend of Open WebUI, with the server as an ollama connection, as an OpenAI connection and for the vectors of its knowledge.

The test drives the backend's own HTTP API, as its page does.
"""

import http.client
import json
import os
import socket
import subprocess
import tempfile
import time
import unittest

from clients import NAME, TIMEOUT, WithServer, serve_test

OPENAI = "by-openai"  # the prefix of names of the OpenAI connection, so that both connections can be asked
QUESTION = [{"role": "user", "content": "Hello!"}]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Backend:
    """Open WebUI's process and requests to it."""

    def __init__(self, address):
        self.folder = tempfile.TemporaryDirectory()
        self.log = tempfile.TemporaryFile()
        self.port, self.token = free_port(), None
        self.process = subprocess.Popen(
            ["open-webui", "serve", "--host", "127.0.0.1", "--port", str(self.port)], cwd=self.folder.name,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, env={
                "PATH": os.environ["PATH"], "HOME": self.folder.name, "DATA_DIR": self.folder.name, "WEBUI_AUTH": "False",
                "WEBUI_SECRET_KEY": "none", "OFFLINE_MODE": "true", "HF_HUB_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "false",
                "DO_NOT_TRACK": "1", "RAG_EMBEDDING_ENGINE": "openai", "RAG_EMBEDDING_MODEL": NAME, "OPENAI_API_KEY": "none",
                "OLLAMA_BASE_URL": address, "OPENAI_API_BASE_URL": address + "/v1"})
        deadline = time.monotonic() + 2 * TIMEOUT
        while not self.is_up():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("Open WebUI did not start:\n" + self.text())
            time.sleep(0.5)

    def is_up(self):
        try:
            return self.request("GET", "/health")[0] == 200
        except OSError:
            return False

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def json(self, method, path, body=None):
        status, text = self.request(method, path, body)
        assert status == 200, (method, path, status, text, self.text()[-3000:])
        return json.loads(text)

    def text(self):
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")

    def stop(self):
        self.process.terminate()
        self.process.wait(TIMEOUT)
        self.log.close()
        self.folder.cleanup()


class OpenWebui(WithServer, unittest.TestCase):
    # Open WebUI asks for titles of up to 1000 tokens.
    options = ("--hf-overrides", '{"max_position_embeddings": 8192}', "--max-model-len", "8192")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.address = cls.url.removesuffix("/v1")
        cls.vectors = serve_test.Server("--runner", "pooling")
        cls.backend = Backend(cls.address)
        cls.backend.token = cls.backend.json("POST", "/api/v1/auths/signin", {"email": "", "password": ""})["token"]
        cls.backend.json("POST", "/openai/config/update", {
            "ENABLE_OPENAI_API": True, "OPENAI_API_BASE_URLS": [cls.url], "OPENAI_API_KEYS": ["none"],
            "OPENAI_API_CONFIGS": {"0": {"enable": True, "prefix_id": OPENAI}}})
        cls.backend.json("GET", "/api/models?refresh=true")  # its page does this first

    @classmethod
    def tearDownClass(cls):
        cls.backend.stop()
        assert cls.vectors.stop() == 0
        super().tearDownClass()

    def chat(self, name, messages=QUESTION, **fields):
        return self.backend.json("POST", "/api/chat/completions", {"model": name, "messages": messages, "stream": False, **fields})

    def test_connections_and_models(self):
        self.backend.json("POST", "/ollama/verify", {"url": self.address, "key": ""})
        found = self.backend.json("POST", "/openai/verify", {"url": self.url, "key": "none"})
        self.assertEqual([model["id"] for model in found["data"]], [NAME])
        models = self.backend.json("GET", "/api/models?refresh=true")["data"]
        self.assertEqual({model["id"]: model["owned_by"] for model in models}, {NAME: "ollama", f"{OPENAI}.{NAME}": "openai"})
        self.assertEqual(self.backend.json("GET", "/ollama/api/ps")["models"][0]["name"], NAME)
        self.assertIn("version", self.backend.json("GET", "/ollama/api/version"))

    def test_chats_and_their_streams(self):
        texts = set()
        for name in (NAME, f"{OPENAI}.{NAME}"):
            whole = self.chat(name, params={"temperature": 0})
            texts.add(whole["choices"][0]["message"]["content"])
            self.assertGreater(whole["usage"]["completion_tokens"], 3)
            if name == NAME:  # Open WebUI divides by the durations of ollama's API
                self.assertGreater(whole["usage"]["response_token/s"], 0)
            status, text = self.backend.request("POST", "/api/chat/completions", {
                "model": name, "messages": QUESTION, "stream": True, "params": {"temperature": 0}})
            self.assertEqual(status, 200, text)
            chunks = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: {")]
            texts.add("".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]))
        self.assertEqual(len(texts), 1, texts)

    def test_every_parameter_of_its_page(self):
        parameters = {
            "temperature": 0.5, "top_k": 3, "top_p": 0.9, "min_p": 0.1, "seed": 3, "max_tokens": 5, "stop": ["7"], "num_ctx": 2048,
            "num_batch": 8, "num_keep": 4, "num_gpu": 1, "num_thread": 2, "repeat_penalty": 1.1, "repeat_last_n": 64, "mirostat": 0,
            "mirostat_eta": 0.1, "mirostat_tau": 5, "tfs_z": 1, "use_mmap": True, "use_mlock": False, "frequency_penalty": 0.1,
            "presence_penalty": 0.1, "logit_bias": "5:10", "reasoning_effort": "low", "think": False, "keep_alive": "5m"}
        for name in (NAME, f"{OPENAI}.{NAME}"):
            whole = self.chat(name, params=parameters)
            self.assertLessEqual(whole["usage"]["completion_tokens"], 5)

    def test_titles_tags_and_follow_ups(self):
        messages = [*QUESTION, {"role": "assistant", "content": "Hello!"}]
        for task in ("title", "tags", "follow_up"):
            answer = self.backend.json("POST", f"/api/v1/tasks/{task}/completions", {
                "model": NAME, "messages": messages, "chat_id": "one", "max_tokens": 20})
            self.assertEqual(answer["choices"][0]["message"]["role"], "assistant")

    def test_unloading_generates_nothing(self):
        before = self.server.metric("vllm:generation_tokens_total")
        self.assertEqual(self.backend.json("POST", "/ollama/api/unload", {"model": NAME}), {"status": True})
        self.assertEqual(self.server.metric("vllm:generation_tokens_total"), before)

    def test_knowledge_is_found_by_vectors(self):
        vectors = {"url": f"http://127.0.0.1:{self.vectors.port}", "key": "none"}
        texts = ["The owl is called Mildred.", "Bread needs flour, water and salt.", "3 + 4 = 7"]
        for engine, part, url in (("openai", "openai_config", vectors["url"] + "/v1"), ("ollama", "ollama_config", vectors["url"])):
            self.backend.json("POST", "/api/v1/retrieval/embedding/update", {
                "RAG_EMBEDDING_ENGINE": engine, "RAG_EMBEDDING_MODEL": NAME, "RAG_EMBEDDING_BATCH_SIZE": 2, part: {**vectors, "url": url}})
            for number, text in enumerate(texts):
                self.backend.json("POST", "/api/v1/retrieval/process/text", {
                    "name": f"{number}", "content": text, "collection_name": f"{engine}-{number}"})
            found = self.backend.json("POST", "/api/v1/retrieval/query/collection", {
                "collection_names": [f"{engine}-{number}" for number in range(len(texts))], "query": texts[1], "k": 1})
            self.assertEqual(found["documents"], [[texts[1]]])


if __name__ == "__main__":
    unittest.main()
