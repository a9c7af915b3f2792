#!/usr/bin/env python3
"""A proxy in front of servers that compute prompts and servers that continue them.

    proxy.py --prefill http://10.0.0.1:8000 --decode http://10.0.0.2:8000 [--decode ...] [--port 8080]

Each request goes first to a prefill server with max_tokens 1, and then, with the kv_transfer_params of that answer, to a
decode server, whose answer or stream goes to the client. This is the exchange of vLLM's disaggregated serving, so vLLM's
own proxies and routers do the same. Servers take turns.

When a prefill server fails, the next one is asked; without any, the decode server computes the prompt. When a decode server
fails before the answer has begun, the next one computes prompt and answer. A request whose answer has begun when its server
dies ends with a broken stream. This is an example: it needs only Python's standard library, and a thread per request.
"""

import argparse
import contextlib
import http.client
import http.server
import itertools
import json
import sys
import threading
import urllib.parse

ROUTES = ("/v1/completions", "/v1/chat/completions")
# What the first request must not carry: it wants one token of one answer.
ONLY_FOR_DECODE = ("min_tokens", "stream_options", "best_of", "logprobs", "top_logprobs", "structured_outputs", "response_format",
                   "max_completion_tokens", "echo")
MAX_BODY_BYTES = 64 << 20
COPIED_HEADERS = ("Authorization", "X-Request-Id")


class Servers:
    """Gives its members in turn, each once per round."""

    def __init__(self, urls):
        self.urls = [urllib.parse.urlsplit(url) for url in urls]
        self.turns = itertools.count()
        self.lock = threading.Lock()

    def round(self):
        with self.lock:
            first = next(self.turns)
        return [self.urls[(first + i) % len(self.urls)] for i in range(len(self.urls))]


class Unreachable(Exception):
    """No answer, or one that another server may do better."""


def ask(url, method, path, body, headers, timeout):
    """An open answer, which the caller closes with its connection."""
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.hostname, url.port, timeout=timeout)
    try:
        connection.request(method, path, body, headers)
        return connection, connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        raise Unreachable(f"{url.geturl()}: {error}") from error


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def headers_for_servers(self):
        copied = {name: self.headers[name] for name in COPIED_HEADERS if self.headers[name]}
        return {"Content-Type": "application/json", **copied}

    def tell(self, status, message):
        self.send(status, "application/json", json.dumps({"error": {"message": message, "code": status}}).encode())

    def send(self, status, content_type, body):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        """Questions about the model go to a decode server."""
        self.pass_on("GET", None)

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        if length > MAX_BODY_BYTES:
            return self.tell(413, f"the body has {length} bytes, at most {MAX_BODY_BYTES} are taken")
        text = self.rfile.read(length)
        if self.path not in ROUTES:
            return self.pass_on("POST", text)
        try:
            body = json.loads(text)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            return self.pass_on("POST", text)  # the server says what is wrong
        body.pop("kv_transfer_params", None)  # clients do not choose where a server connects
        params, refusal = self.compute_prompt(body)
        if refusal:
            return self.send(*refusal)
        self.pass_on("POST", json.dumps(body).encode(), body, params)

    def compute_prompt(self, body):
        """The parameters for a decode server, or None; and an answer for the client if the request is at fault."""
        first = {name: value for name, value in body.items() if name not in ONLY_FOR_DECODE}
        first |= {"max_tokens": 1, "n": 1, "stream": False,
                  "kv_transfer_params": {"do_remote_decode": True, "do_remote_prefill": False}}
        for url in self.server.prefill.round():
            try:
                connection, response = ask(url, "POST", self.path, json.dumps(first).encode(), self.headers_for_servers(),
                                           self.server.timeout_s)
                with contextlib.closing(connection):
                    answer = response.read()
                if response.status == 200:
                    return json.loads(answer).get("kv_transfer_params"), None
                if response.status < 500 and response.status != 429:
                    return None, (response.status, response.headers["Content-Type"], answer)
            except (Unreachable, OSError, http.client.HTTPException, ValueError) as error:
                self.log_error("prefill: %s", error)
        return None, None

    def pass_on(self, method, text, body=None, params=None):
        """The answer of the first decode server that gives one."""
        for url in self.server.decode.round():
            for with_params in (True, False) if params else (False,):
                sent = json.dumps({**body, "kv_transfer_params": params}).encode() if with_params else text
                try:
                    connection, response = ask(url, method, self.path, sent, self.headers_for_servers(), self.server.timeout_s)
                except Unreachable as error:
                    self.log_error("decode: %s", error)
                    break
                with contextlib.closing(connection):
                    if response.status == 503:
                        # With parameters: the prompt could not be fetched, so this server computes it.
                        self.log_error("decode: %s: %s", url.geturl(), response.read()[:300])
                        continue
                    return self.copy(response)
        return self.tell(502, "no decode server answers")

    def copy(self, response):
        self.send_response(response.status)
        for name in ("Content-Type", "Content-Length", "X-Request-Id", "Retry-After"):
            if response.headers[name]:
                self.send_header(name, response.headers[name])
        if not response.headers["Content-Length"]:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        try:
            while part := response.read1(1 << 16):
                self.wfile.write(part)
                self.wfile.flush()
        except (OSError, http.client.HTTPException) as error:
            self.log_error("%s", error)
            self.close_connection = True

    def log_request(self, code="-", size="-"):
        pass


class Proxy(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--prefill", action="append", required=True, help="URL of a server with kv_role kv_producer")
    parser.add_argument("--decode", action="append", required=True, help="URL of a server with kv_role kv_consumer")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080, help="0: any free one")
    parser.add_argument("--timeout", type=float, default=600, help="seconds of silence of a server")
    options = parser.parse_args()
    proxy = Proxy((options.host, options.port), Handler)
    proxy.prefill, proxy.decode = Servers(options.prefill), Servers(options.decode)
    proxy.timeout_s = options.timeout
    print(f"listening at http://{options.host}:{proxy.server_port}", flush=True)
    try:
        proxy.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
