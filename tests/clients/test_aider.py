"""aider itself: it asks for a change of a file, reads the stream, and writes the change.

The bundled model cannot write programs. A proxy replaces the text of each answer by one that mends the file; the request is
as aider sends it, and every event of the stream as the server sends it.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from clients import NAME, TIMEOUT, WithServer
from deciding_proxy import DecidingProxy

WRONG, RIGHT = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"
WHOLE = f"calc.py\n```\n{RIGHT}```\n"
DIFF = "calc.py\n```python\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n>>>>>>> REPLACE\n```\n"


def with_text(body, text):
    """The answer with the wanted text in the place of the first piece, no other text, and a normal end."""
    if not body.startswith(b"data: "):
        answer = json.loads(body)
        answer["choices"][0]["message"]["content"] = text
        answer["choices"][0]["finish_reason"] = "stop"
        return json.dumps(answer).encode()
    events = []
    for event in body.decode().split("\n\n"):
        if event.startswith("data: {"):
            chunk = json.loads(event.removeprefix("data: "))
            for choice in chunk["choices"]:
                if choice["delta"].get("content"):
                    choice["delta"]["content"], text = text, ""
                choice["finish_reason"] = choice["finish_reason"] and "stop"
            event = "data: " + json.dumps(chunk)
        events.append(event)
    return "\n\n".join(events).encode()


class Aider(WithServer, unittest.TestCase):
    options = ("--hf-overrides", '{"max_position_embeddings": 32768}', "--max-model-len", "32768")

    def mend(self, text, *arguments, uses_git):
        """The file, what aider printed, and what it sent."""
        bodies = []

        def decide(path, body):
            bodies.append((path, dict(body)))
            # Long enough to have several pieces.
            return {**body, "max_tokens": 12, "ignore_eos": True}

        proxy = DecidingProxy(self.server.port, decide, lambda _, body: with_text(body, text))
        with tempfile.TemporaryDirectory() as folder:
            work, home = pathlib.Path(folder, "work"), pathlib.Path(folder, "home")
            work.mkdir()
            home.mkdir()
            (work / "calc.py").write_text(WRONG)
            environment = {"PATH": os.environ["PATH"], "HOME": str(home), "OPENAI_API_KEY": "none", "GIT_AUTHOR_NAME": "a",
                           "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
                           "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
            if uses_git:
                for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "begin"]):
                    subprocess.run(["git", *command], cwd=work, env=environment, check=True)
            run = subprocess.run(
                ["aider", *(() if uses_git else ("--no-git",)), "--yes-always", "--model", f"openai/{NAME}", "--openai-api-base",
                 f"http://127.0.0.1:{proxy.port}/v1", "--no-show-model-warnings", "--no-check-update", "--analytics-disable",
                 "--no-pretty", "--map-tokens", "0", *arguments, "--message", "Mend add.", "calc.py"],
                cwd=work, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=4 * TIMEOUT)
            proxy.close()
            self.assertEqual(run.returncode, 0, (run.stdout[-3000:], run.stderr[-3000:]))
            self.assertEqual({status for method, _, status in proxy.statuses if method == "POST"}, {200}, proxy.statuses)
            return (work / "calc.py").read_text(), run.stdout, bodies

    def test_a_streamed_whole_file(self):
        mended, said, bodies = self.mend(WHOLE, uses_git=False)
        self.assertEqual(mended, RIGHT, said)
        (path, body), = bodies
        self.assertEqual((path, body["stream"]), ("/v1/chat/completions", True))
        self.assertRegex(said, r"Tokens: [\d.k]+ sent, \d+ received")

    def test_a_diff_without_stream(self):
        mended, said, bodies = self.mend(DIFF, "--edit-format", "diff", "--no-stream", uses_git=False)
        self.assertEqual(mended, RIGHT, said)
        self.assertFalse(bodies[0][1].get("stream", False))
        # The counts are the server's: the proxy has not touched them.
        self.assertIn("12 received", said)

    def test_git_and_the_message_of_its_commit(self):
        mended, said, bodies = self.mend(WHOLE, uses_git=True)
        self.assertEqual(mended, RIGHT, said)
        self.assertRegex(said, r"Commit [0-9a-f]{7}")
        self.assertEqual(len(bodies), 2)  # aider asks the model for the message of the commit


if __name__ == "__main__":
    unittest.main()
