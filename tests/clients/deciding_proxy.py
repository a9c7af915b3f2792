"""A proxy between a client and the server that may change what is asked and what is answered."""

import http.client
import http.server
import json
import threading

from clients import TIMEOUT


class DecidingProxy:
    """Forwards requests. `decide(path, body)` may change the body of each POST, and `answer(path, text)` a whole answer."""

    def __init__(self, port, decide, answer=None):
        self.bodies, self.statuses = [], []
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def forward(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if self.command == "POST":
                    asked = json.loads(body)
                    proxy.bodies.append(asked)
                    body = json.dumps(decide(self.path, json.loads(body))).encode()
                upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
                headers = {key: value for key, value in self.headers.items() if key.lower() not in ("content-length", "connection", "host")}
                upstream.request(self.command, self.path, body, headers)
                answered = upstream.getresponse()
                proxy.statuses.append((self.command, self.path, answered.status))
                self.send_response(answered.status)
                for key, value in answered.getheaders():
                    if key.lower() not in ("transfer-encoding", "content-length", "connection"):
                        self.send_header(key, value)
                self.end_headers()
                if answer and self.command == "POST":
                    self.wfile.write(answer(self.path, answered.read()))
                while piece := answered.read1(65536):
                    self.wfile.write(piece)
                    self.wfile.flush()
                upstream.close()

            do_GET = do_POST = do_HEAD = forward

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
