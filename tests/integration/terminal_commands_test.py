#!/usr/bin/env python3
"""`reprise run-batch`, `chat` and `complete`: real processes, the bundled model, a slow server.

    terminal_commands_test.py REPRISE_BINARY MODEL_FOLDER

Uses only Python's standard library.
"""

import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import serve_test

BINARY = MODEL = None
TIMEOUT = 300


def line(custom_id, url="/v1/completions", method="POST", **body):
    return json.dumps({"custom_id": custom_id, "method": method, "url": url, "body": body})


class RunBatch(unittest.TestCase):
    def run_batch(self, text, *options, expect=0):
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "in.jsonl"), Path(folder, "out.jsonl")
            source.write_bytes(text if isinstance(text, bytes) else text.encode())
            run = subprocess.run([BINARY, "run-batch", MODEL, "-i", source, "-o", target, "--served-model-name", "tiny",
                                  *options], capture_output=True, text=True, timeout=TIMEOUT, check=False)
            self.assertEqual(run.returncode, expect, run.stderr)
            return [json.loads(row) for row in target.read_text(encoding="utf-8").splitlines()] if not expect else run

    def test_answers_come_in_order_and_are_those_of_the_server(self):
        serve_test.BINARY, serve_test.MODEL = BINARY, MODEL
        prompts = [f"Once upon a time there {word}" for word in ("was a dog", "were two cats", "lived a girl")] * 20
        answers = self.run_batch("\n".join(line(f"id-{i}", prompt=prompt, max_tokens=10 + i % 7, temperature=0)
                                           for i, prompt in enumerate(prompts)), "--max-num-seqs", "4")
        self.assertEqual([answer["custom_id"] for answer in answers], [f"id-{i}" for i in range(60)])
        self.assertEqual(len({answer["id"] for answer in answers}), 60)
        server = serve_test.Server()
        self.addCleanup(server.stop)
        for i in (0, 1, 2, 59):
            _, expected = server.post("/v1/completions", {"prompt": prompts[i], "max_tokens": 10 + i % 7,
                                                          "temperature": 0})
            self.assertEqual(answers[i]["response"]["status_code"], 200)
            self.assertIsNone(answers[i]["error"])
            body = answers[i]["response"]["body"]
            self.assertEqual(body["choices"][0]["text"], expected["choices"][0]["text"])
            self.assertEqual(body["usage"]["completion_tokens"], expected["usage"]["completion_tokens"])

    def test_members_of_a_line_without_effect_are_named_once(self):
        row = json.loads(line("a", prompt="Once", max_tokens=2, user="u"))
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "in.jsonl"), Path(folder, "out.jsonl")
            source.write_text(2 * (json.dumps({**row, "priority": 1}) + "\n"), encoding="utf-8")
            run = subprocess.run([BINARY, "run-batch", MODEL, "-i", source, "-o", target], capture_output=True, text=True,
                                 timeout=TIMEOUT, check=True)
        self.assertEqual(run.stderr.count('the member "priority", which has no effect'), 1, run.stderr)
        self.assertEqual(run.stderr.count("without effect on this server: user"), 1, run.stderr)

    def test_chats(self):
        (answer,) = self.run_batch(line("c", "/v1/chat/completions", model="tiny", temperature=0, max_tokens=20,
                                        messages=[{"role": "user", "content": "What is 3 + 4?"}]) + "\n")
        self.assertIn("7", answer["response"]["body"]["choices"][0]["message"]["content"])

    def test_wrong_lines_become_error_lines_and_the_others_are_answered(self):
        rows = [b"not json", b"[]", b'{"custom_id": 5}', line("m", method="GET").encode(),
                line("u", "/v1/images").encode(), line("e", "/v1/embeddings", input="x").encode(),
                b'{"custom_id": "b", "method": "POST", "url": "/v1/completions"}',
                line("s", prompt="x", stream=True).encode(), line("t", prompt="x", max_tokens=-1).encode(),
                line("o", prompt="x", model="other").encode(), b"\xff\xfe", b"", b"   ",
                line("good", prompt="Once", max_tokens=3).encode()]
        answers = self.run_batch(b"\r\n".join(rows))
        self.assertEqual([answer["custom_id"] for answer in answers],
                         [None, None, None, "m", "u", "e", "b", "s", "t", "o", None, "good"])
        for answer in answers[:-1]:
            self.assertIsNone(answer["response"]["body"])
            self.assertEqual(answer["response"]["status_code"], 404 if answer["custom_id"] == "o" else 400)
            self.assertEqual(answer["error"]["error"]["code"], answer["response"]["status_code"])
        self.assertIn("line 4", answers[3]["error"]["error"]["message"])
        self.assertIn("stream", answers[7]["error"]["error"]["message"])
        self.assertEqual(answers[-1]["response"]["body"]["usage"]["completion_tokens"], 3)

    def test_many_answers_of_one_request(self):
        (answer,) = self.run_batch(line("n", prompt="Once", n=9, max_tokens=4, temperature=1), "--max-num-seqs", "2")
        self.assertEqual(len(answer["response"]["body"]["choices"]), 9)

    def test_answers_with_many_log_probabilities_have_a_limit_that_an_option_raises(self):
        rows = line("large", prompt="Once", n=2, max_tokens=100, logprobs=5) + "\n" + line("small", prompt="Once", max_tokens=2)
        large, small = self.run_batch(rows, "--max-answer-bytes", "100k")
        self.assertIn("--max-answer-bytes", large["error"]["error"]["message"])
        self.assertEqual(small["response"]["status_code"], 200)
        large, small = self.run_batch(rows, "--max-answer-bytes", "121k")
        self.assertEqual((large["response"]["status_code"], small["response"]["status_code"]), (200, 200))

    def test_a_pipe_carries_requests_and_answers_and_keeps_what_was_there(self):
        rows = line("a", prompt="Once", max_tokens=2) + "\n" + line("b", prompt="Once", max_tokens=3)
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder, "out.jsonl")
            target.write_text("kept\n", encoding="utf-8")
            with target.open("a", encoding="utf-8") as out:
                subprocess.run([BINARY, "run-batch", MODEL, "-i", "-", "-o", "-"], input=rows, stdout=out, text=True,
                               timeout=TIMEOUT, check=True)
            kept, *answers = target.read_text(encoding="utf-8").splitlines()
        self.assertEqual(kept, "kept")
        self.assertEqual([json.loads(answer)["custom_id"] for answer in answers], ["a", "b"])

    def test_an_empty_file_gives_an_empty_file(self):
        self.assertEqual(self.run_batch("\n \n"), [])

    def test_bad_options(self):
        for options, word in ((["--input-file", "nowhere.jsonl", "--output-file", "x"], "nowhere.jsonl"), (["-o", "x"], "--input-file"),
                              (["-i", "http://x/y", "-o", "x"], "URL"), (["-i", "x", "-o", "x"], "input file")):
            run = subprocess.run([BINARY, "run-batch", MODEL, *options], capture_output=True, text=True, timeout=TIMEOUT,
                                 check=False)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(word, run.stderr)


class SlowServer(http.server.ThreadingHTTPServer):
    """Streams "word " for ever to whoever says "long", and echoes the others; notes what it was sent."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), SlowHandler)
        self.bodies, self.keys, self.was_cut_off = [], [], threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class SlowHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = json.dumps({"data": [{"id": "slow"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def piece(self, text):
        choice = {"delta": {"content": text}} if "chat" in self.path else {"text": text}
        data = b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        self.server.keys.append(self.headers["Authorization"])
        text = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            deadline = time.monotonic() + TIMEOUT
            while text == "long" and time.monotonic() < deadline:
                self.piece("word ")
                time.sleep(0.02)
            self.piece("you said " + text)
            self.wfile.write(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            self.server.was_cut_off.set()
            self.close_connection = True


class Terminal(unittest.TestCase):
    def setUp(self):
        self.server = SlowServer()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def run_client(self, *arguments, text=None, expect=0):
        kept = {key: value for key, value in os.environ.items() if key != "OPENAI_API_KEY"}
        run = subprocess.run([BINARY, *arguments, "--url", self.url], input=text, capture_output=True, text=True,
                             timeout=TIMEOUT, check=False, env={**kept, "OPENAI_API_KEY": "from-environment"})
        self.assertEqual(run.returncode, expect, run.stderr)
        return run

    def test_quick_answers_and_ends(self):
        run = self.run_client("chat", "-q", "hello", "--stats", "--max-tokens", "7", "--temperature", "0")
        self.assertEqual(run.stdout, "you said hello\n")
        self.assertIn("Using model: slow", run.stderr)
        self.assertIn("TTFT", run.stderr)
        (body,) = self.server.bodies
        self.assertEqual((body["model"], body["stream"], body["max_completion_tokens"], body["temperature"]),
                         ("slow", True, 7, 0))
        self.assertEqual(self.server.keys, ["Bearer from-environment"])

    def test_a_talk_remembers_what_was_said(self):
        run = self.run_client("chat", "--system-prompt", "be kind", "--api-key", "mine", text="one\n\ntwo\n")
        self.assertEqual(run.stdout, "you said one\nyou said two\n")
        self.assertEqual([(m["role"], m["content"]) for m in self.server.bodies[1]["messages"]],
                         [("system", "be kind"), ("user", "one"), ("assistant", "you said one"), ("user", "two")])
        self.assertEqual(self.server.keys[0], "Bearer mine")

    def test_complete(self):
        run = self.run_client("complete", "--model-name", "m", "--max-tokens", "5", text="one\ntwo\n")
        self.assertEqual(run.stdout, "you said one\nyou said two\n")
        self.assertEqual([(b["model"], b["prompt"], b["max_tokens"]) for b in self.server.bodies],
                         [("m", "one", 5), ("m", "two", 5)])

    def test_ctrl_c_stops_the_answer_and_not_the_program(self):
        process = subprocess.Popen([BINARY, "chat", "--url", self.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        watchdog = threading.Timer(TIMEOUT, process.kill)
        watchdog.start()
        self.addCleanup(watchdog.cancel)
        process.stdin.write(b"long\n")
        process.stdin.flush()
        self.assertEqual(os.read(process.stdout.fileno(), 5), b"word ")
        process.send_signal(signal.SIGINT)
        self.assertTrue(self.server.was_cut_off.wait(TIMEOUT))
        output, _ = process.communicate(b"again\n", timeout=TIMEOUT)
        self.assertEqual(process.returncode, 0)
        self.assertTrue(output.endswith(b"\nyou said again\n"), output[-100:])
        talk = self.server.bodies[1]["messages"]
        self.assertEqual([m["role"] for m in talk], ["user", "assistant", "user"])
        self.assertTrue(talk[1]["content"].startswith("word "))

    def test_no_server(self):
        self.url = "http://127.0.0.1:9/v1"
        self.assertIn("127.0.0.1:9", self.run_client("chat", "-q", "x", expect=1).stderr)
        self.url = "nonsense"
        self.assertIn("--url", self.run_client("chat", "-q", "x", expect=2).stderr)


if __name__ == "__main__":
    BINARY, MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2, warnings="ignore")
