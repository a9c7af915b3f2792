"""Claude Code and Codex themselves: each asks, runs the tool that the model calls, sends the result, and shows the answer.

The bundled model is too small to choose a tool. A proxy between the two does that for it: in the first request of a
conversation it demands a call whose arguments have one value, and it keeps answers short. Everything else is as the
agents send it and as the server answers.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from clients import NAME, TIMEOUT, WithServer
from deciding_proxy import DecidingProxy

SECRET = "The owl is called Mildred."


def program(package, *path):
    found = importlib.util.find_spec(package)
    file = pathlib.Path(found.submodule_search_locations[0], *path)
    file.chmod(0o755)
    return str(file)


def only(arguments):
    """A schema that these arguments alone fit."""
    return {"type": "object", "properties": {name: {"const": value} for name, value in arguments.items()},
            "required": list(arguments), "additionalProperties": False}


class CodingAgents(WithServer, unittest.TestCase):
    # The agents' instructions are long in the small vocabulary of the bundled model.
    options = ("--hf-overrides", '{"max_position_embeddings": 131072}', "--max-model-len", "131072",
               "--enable-auto-tool-choice", "--tool-call-parser", "hermes")

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.home, self.work = pathlib.Path(self.folder.name, "home"), pathlib.Path(self.folder.name, "work")
        self.home.mkdir()
        self.work.mkdir()
        subprocess.run(["git", "init", "-q", "."], cwd=self.work, check=True)
        (self.work / "owl.txt").write_text(SECRET + "\n")

    def tearDown(self):
        self.folder.cleanup()

    def run_agent(self, arguments, proxy, **environment):
        run = subprocess.run(
            arguments, cwd=self.work, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10 * TIMEOUT,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), **environment})
        proxy.close()
        self.assertEqual(run.returncode, 0, (run.stdout[-3000:], run.stderr[-3000:]))
        self.assertEqual({status for method, _, status in proxy.statuses if method == "POST"}, {200}, proxy.statuses)
        return run.stdout

    def test_claude_code(self):
        path = str(self.work / "owl.txt")

        def decide(_, body):
            has_result = "tool_result" in json.dumps(body["messages"])
            body.update(max_tokens=400, temperature=0, stop_sequences=[".", "\n"] if has_result else [])
            for read in [tool for tool in body.get("tools", []) if tool["name"] == "Read"]:
                read["input_schema"] = only({"file_path": path})
                if not has_result:
                    body["tool_choice"] = {"type": "tool", "name": "Read"}
            return body

        proxy = DecidingProxy(self.server.port, decide)
        shown = self.run_agent(
            [program("claude_agent_sdk", "_bundled", "claude"), "-p", "Who is in owl.txt?", "--output-format", "json"], proxy,
            ANTHROPIC_BASE_URL=f"http://127.0.0.1:{proxy.port}", ANTHROPIC_AUTH_TOKEN="none", ANTHROPIC_MODEL=NAME,
            ANTHROPIC_SMALL_FAST_MODEL=NAME, CLAUDE_CODE_MAX_CONTEXT_TOKENS="131072",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_AUTOUPDATER="1")
        result = json.loads(shown)
        result = result[-1] if isinstance(result, list) else result
        results = [block for body in proxy.bodies for message in body["messages"] if isinstance(message["content"], list)
                   for block in message["content"] if block["type"] == "tool_result"]
        self.assertIn(SECRET, json.dumps(results))
        self.assertEqual((result["type"], result["num_turns"]), ("result", 2), result)
        # The second request repeats the first one, which is in the prefix cache, and adds a few hundred tokens.
        self.assertGreater(result["usage"]["cache_read_input_tokens"], 0.8 * result["usage"]["input_tokens"], result)

    def test_codex(self):
        (self.home / ".codex").mkdir()

        def decide(_, body):
            has_result = any(item["type"] == "function_call_output" for item in body["input"])
            body.update(max_output_tokens=400, temperature=0, stop=[".", "\n"] if has_result else [])
            (run,) = [tool for tool in body["tools"] if tool.get("name") == "exec_command"]
            run["parameters"] = only({"cmd": "cat owl.txt"})
            if not has_result:
                body["tool_choice"] = {"type": "function", "name": "exec_command"}
            return body

        proxy = DecidingProxy(self.server.port, decide)
        (self.home / ".codex" / "config.toml").write_text(
            f'model = "{NAME}"\nmodel_provider = "reprise"\n[model_providers.reprise]\nname = "Reprise"\n'
            f'base_url = "http://127.0.0.1:{proxy.port}/v1"\nwire_api = "responses"\n')
        shown = self.run_agent(
            [program("codex_cli_bin", "bin", "codex"), "exec", "--json", "-s", "danger-full-access", "Who is in owl.txt?"], proxy)
        events = [json.loads(line) for line in shown.splitlines() if line.startswith("{")]
        results = [item for body in proxy.bodies for item in body["input"] if item["type"] == "function_call_output"]
        self.assertIn(SECRET, json.dumps(results))
        self.assertEqual(events[-1]["type"], "turn.completed", events)
        self.assertGreater(events[-1]["usage"]["cached_input_tokens"], 0.4 * events[-1]["usage"]["input_tokens"], events)
        self.assertTrue(any(event.get("item", {}).get("type") == "agent_message" for event in events), events)


if __name__ == "__main__":
    unittest.main()
