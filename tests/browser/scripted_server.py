"""A server for the chat page whose answers a test decides, behind the path /llm/. Standard library only.

It serves the page's files from the source, perhaps with a planted bug, and keeps what the page sends.
"""

import http.server
import json
import re
import threading
import time
from pathlib import Path

SERVER = Path(__file__).resolve().parent.parent.parent / "src/reprise/server"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
LIVE = {"model": "scripted", "seconds": 1.0, "is_dead": False, "running": 0, "waiting": 0, "kv_cache_usage": 0.25,
        "generation_tokens": 10, "padding_tokens": 317, "steps": 40, "steps_by_mode": {"FULL": 30, "PIECEWISE": 6, "NONE": 4},
        "recent_steps": [{"index": n, "mode": ["FULL", "FULL", "PIECEWISE", "NONE"][n % 4], "descriptor": "tokens=1 reqs=1",
                          "num_tokens": 1, "num_reqs": 1, "seconds": 0.001, "reason": "exact", "reason_text":
                          "A graph of exactly this size was captured."} for n in range(1, 41)]}


def content_security_policy():
    source = (SERVER / "page_routes.cpp").read_text(encoding="utf-8")
    return "".join(re.findall(r'"(.*?)"', source.split("kContentSecurityPolicy =")[1].split(";\n")[0]))


class ScriptedServer:
    """`answers` are used in order: a list of deltas, or a number, which is the status of an error.
    A delta may hold "finish_reason". After them each question is answered with "Yes."."""

    def __init__(self, answers=(), models=("scripted",), bug=None, pace=0.0):
        self.answers, self.models, self.bug, self.pace = list(answers), models, bug, pace
        self.requests, self.strays = [], []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.get(self)

            def do_POST(self):
                outer.post(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/llm/"

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def get(self, exchange):
        path = exchange.path.split("?")[0]
        if path == "/llm/live":
            return self.send(exchange, json.dumps({**LIVE, "seconds": time.monotonic()}), "application/json")
        if path == "/llm/v1/models":
            data = [{"id": name, "parent": None if at == 0 else self.models[0]} for at, name in enumerate(self.models)]
            return self.send(exchange, json.dumps({"data": data}), "application/json")
        name = "index.html" if path == "/llm/" else path.removeprefix("/llm/page/")
        file = SERVER / "page" / name
        if not path.startswith("/llm/") or "/" in name or not file.is_file():
            self.strays.append(path)
            return exchange.send_error(404)
        text = file.read_text(encoding="utf-8")
        if self.bug and self.bug["file"] == name:
            assert text.count(self.bug["find"]) == 1, f"{name} has not exactly one: {self.bug['find']}"
            text = text.replace(self.bug["find"], self.bug["replace"])
        return self.send(exchange, text, TYPES[file.suffix])

    def send(self, exchange, text, media_type, status=200):
        exchange.send_response(status)
        exchange.send_header("Content-Type", media_type + "; charset=utf-8")
        exchange.send_header("Content-Security-Policy", content_security_policy())
        exchange.end_headers()
        exchange.wfile.write(text.encode())

    def post(self, exchange):
        body = json.loads(exchange.rfile.read(int(exchange.headers["Content-Length"])))
        if exchange.path != "/llm/v1/chat/completions":
            self.strays.append(exchange.path)
            return exchange.send_error(404)
        self.requests.append(body)
        answer = self.answers.pop(0) if self.answers else [{"content": "Yes."}]
        if isinstance(answer, int):
            return self.send(exchange, json.dumps({"error": {"message": f"Refused with {answer}."}}), "application/json", answer)
        exchange.send_response(200)
        exchange.send_header("Content-Type", "text/event-stream")
        exchange.end_headers()
        finish = "stop"
        try:
            for count, delta in enumerate(answer, 1):
                delta = dict(delta)
                finish = delta.pop("finish_reason", finish)
                self.event(exchange, {"delta": delta}, count)
                time.sleep(self.pace)
            self.event(exchange, {"delta": {}, "finish_reason": finish}, len(answer))
            exchange.wfile.write(b"data: [DONE]\n\n")
        except (BrokenPipeError, ConnectionResetError):
            pass  # the reader stopped the answer

    def event(self, exchange, choice, count):
        event = {"choices": [{"index": 0, **choice}], "usage": {"completion_tokens": count, "prompt_tokens": 12}}
        exchange.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
