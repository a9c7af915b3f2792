#!/usr/bin/env python3
"""How `reprise serve` listens: TLS, keys, CORS, Unix sockets, prefixes, access log; and that hostile bytes do no harm.

    serve_http_test.py REPRISE_BINARY MODEL_FOLDER

Uses Python's standard library and the openssl program.
"""

import http.client
import json
import os
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import serve_test
from serve_test import NAME, TIMEOUT, Server, events, stories


SERVER = Path(__file__).resolve().parent.parent.parent / "src/reprise/server"
# The routes that need no key. A new route must be added here by hand, or need a key.
PUBLIC = {"/health", "/ping", "/version", "/metrics", "/load", "/openapi.json", "/", "/live", "/page/{file}"}


class Case(unittest.TestCase):
    def start(self, *options, **environment):
        server = Server(*options, **environment)
        self.addCleanup(server.stop)
        return server

    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    def refused(self, *options):
        """What the program says that does not start."""
        done = subprocess.run(
            [serve_test.BINARY, "serve", serve_test.MODEL, "--port", "0", *options],
            capture_output=True, text=True, timeout=TIMEOUT,
        )
        self.assertNotEqual(done.returncode, 0)
        return done.stderr


class Tls(Case):
    @classmethod
    def setUpClass(cls):
        cls.keep = tempfile.TemporaryDirectory()
        cls.path = cls.keep.name
        cls.certificate("server", "localhost")
        cls.certificate("client", "somebody")

    @classmethod
    def tearDownClass(cls):
        cls.keep.cleanup()

    @classmethod
    def certificate(cls, name, subject):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={subject}",
             "-addext", f"subjectAltName=DNS:{subject},IP:127.0.0.1",
             "-keyout", f"{cls.path}/{name}.key", "-out", f"{cls.path}/{name}.pem"],
            check=True, capture_output=True,
        )

    def start_tls(self, *options):
        return self.start("--ssl-certfile", f"{self.path}/server.pem", "--ssl-keyfile", f"{self.path}/server.key",
                          *options)

    def trust(self, client=None):
        context = ssl.create_default_context(cafile=f"{self.path}/server.pem")
        if client:
            context.load_cert_chain(f"{self.path}/{client}.pem", f"{self.path}/{client}.key")
        return context

    def connect(self, server, context):
        return http.client.HTTPSConnection("127.0.0.1", server.port, timeout=TIMEOUT, context=context)

    def test_requests_and_streams_over_tls(self):
        server = self.start_tls()
        connection = self.connect(server, self.trust())
        answers = []
        for fields in ({}, {"stream": True}, {"stream": True}, {}):  # on one connection
            connection.request("POST", "/v1/completions", json.dumps(stories(**fields)),
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            self.assertEqual(response.status, 200)
            text = response.read()
            if fields:
                answers.append("".join(event["choices"][0]["text"] for event in events(text)))
            else:
                answers.append(json.loads(text)["choices"][0]["text"])
        self.assertEqual(len(set(answers)), 1, answers)
        connection.close()

    def refreshing(self):
        """A server with files of its own, and the function that replaces them as a tool for certificates does."""
        folder = self.folder()

        def install(name, key=None):
            for source, target in ((f"{name}.pem", "cert"), (f"{key or name}.key", "key")):
                copy = Path(folder) / f"{target}.new"
                copy.write_bytes(Path(self.path, source).read_bytes())
                copy.replace(Path(folder) / target)

        install("server")
        server = self.start("--ssl-certfile", f"{folder}/cert", "--ssl-keyfile", f"{folder}/key", "--enable-ssl-refresh")
        return server, install

    def certificate_of(self, server):
        """The certificate that a new connection gets."""
        return ssl.get_server_certificate(("127.0.0.1", server.port), timeout=TIMEOUT).strip()

    def text_of(self, name):
        return Path(self.path, f"{name}.pem").read_text().strip()

    def test_a_new_certificate_is_used_without_a_restart(self):
        server, install = self.refreshing()
        old = self.connect(server, self.trust())
        old.request("GET", "/health")
        self.assertEqual(old.getresponse().read(), b"")
        self.assertEqual(self.certificate_of(server), self.text_of("server"))
        install("client")
        server.wait_until(lambda: self.certificate_of(server) == self.text_of("client"))
        self.assertIn("New connections use the TLS files as they are now.", server.text())
        old.request("GET", "/health")  # a connection keeps its certificate
        self.assertEqual(old.getresponse().status, 200)
        old.close()

    def test_a_bad_certificate_leaves_the_old_one_in_use(self):
        server, install = self.refreshing()
        install("client", key="server")
        server.wait_until(lambda: "the old certificate stays" in server.text())
        self.assertRegex(server.text(), r"WARNING .* the old certificate stays: --ssl-keyfile \S+: ")
        self.assertEqual(self.certificate_of(server), self.text_of("server"))
        install("client")
        server.wait_until(lambda: self.certificate_of(server) == self.text_of("client"))

    def test_a_hangup_reads_the_files_again_and_ends_no_server(self):
        server, install = self.refreshing()
        server.process.send_signal(signal.SIGHUP)
        server.wait_until(lambda: "New connections use the TLS files" in server.text())
        self.assertEqual(self.certificate_of(server), self.text_of("server"))
        install("client")
        server.process.send_signal(signal.SIGHUP)
        server.wait_until(lambda: self.certificate_of(server) == self.text_of("client"))
        self.assertIsNone(server.process.poll())
        self.assertEqual(server.stop(), 0)

    def test_a_refresh_needs_a_certificate(self):
        self.assertIn("--enable-ssl-refresh: needs --ssl-certfile and --ssl-keyfile", self.refused("--enable-ssl-refresh"))

    def test_a_client_that_goes_aborts_its_tls_stream(self):
        server = self.start_tls()
        connection = self.connect(server, self.trust())
        connection.request("POST", "/v1/completions", json.dumps(stories(stream=True, max_tokens=900, ignore_eos=True)),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read(10)
        response.close()
        connection.close()

        def nothing_runs():
            check = self.connect(server, self.trust())
            check.request("GET", "/load")
            load = json.loads(check.getresponse().read())
            check.close()
            return load == {"server_load": 0}

        server.wait_until(nothing_runs)

    def test_plain_text_is_not_answered(self):
        server = self.start_tls()
        with socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            received = plain.recv(4096)
        self.assertNotIn(b"HTTP", received)

    def test_old_versions_are_refused(self):
        server = self.start_tls()
        context = self.trust()
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
        with self.assertRaises((ssl.SSLError, OSError)):
            self.connect(server, context).connect()

    def test_clients_need_certificates_when_told(self):
        server = self.start_tls("--ssl-ca-certs", f"{self.path}/client.pem", "--ssl-cert-reqs", "2")
        with self.assertRaises((ssl.SSLError, OSError, http.client.HTTPException)):
            connection = self.connect(server, self.trust())
            connection.request("GET", "/health")
            connection.getresponse()
        connection = self.connect(server, self.trust("client"))
        connection.request("GET", "/health")
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()

    def test_ciphers_are_those_of_the_list(self):
        chosen = "ECDHE-RSA-AES128-GCM-SHA256"
        server = self.start_tls("--ssl-ciphers", chosen)
        context = self.trust()
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # the list is about TLS 1.2
        connection = self.connect(server, context)
        connection.connect()
        self.assertEqual(connection.sock.cipher()[0], chosen)
        connection.close()
        files = ("--ssl-certfile", f"{self.path}/server.pem", "--ssl-keyfile", f"{self.path}/server.key")
        self.assertIn("NO-SUCH", self.refused(*files, "--ssl-ciphers", "NO-SUCH"))

    def test_files_that_do_not_work_are_named(self):
        self.assertIn("--ssl-keyfile", self.refused("--ssl-certfile", f"{self.path}/server.pem"))
        told = self.refused("--ssl-certfile", f"{self.path}/none.pem", "--ssl-keyfile", f"{self.path}/server.key")
        self.assertIn("none.pem", told)
        told = self.refused("--ssl-certfile", f"{self.path}/server.pem", "--ssl-keyfile", f"{self.path}/client.key")
        self.assertIn("client.key", told)
        # A key of another kind than the certificate's.
        subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{self.path}/ec.key"],
                       check=True, capture_output=True)
        told = self.refused("--ssl-certfile", f"{self.path}/server.pem", "--ssl-keyfile", f"{self.path}/ec.key")
        self.assertIn("ec.key", told)


class Browsers(Case):
    ORIGIN = "https://chat.example"

    def ask(self, server, method, path, **headers):
        return server.request(method, path, headers={name.replace("_", "-"): text for name, text in headers.items()})

    def preflight(self, server, origin):
        return self.ask(server, "OPTIONS", "/v1/completions", Origin=origin, Access_Control_Request_Method="POST",
                        Access_Control_Request_Headers="content-type")

    def test_no_origin_is_let_in_by_default(self):
        server = self.start()
        response, _ = self.ask(server, "GET", "/v1/models", Origin=self.ORIGIN)
        self.assertIsNone(response.getheader("Access-Control-Allow-Origin"))
        response, _ = self.preflight(server, self.ORIGIN)
        self.assertEqual(response.status, 405)

    def test_one_origin(self):
        server = self.start("--allowed-origins", json.dumps([self.ORIGIN]), "--api-key", "secret")
        response, _ = self.preflight(server, self.ORIGIN)  # browsers send no key with it
        self.assertEqual(response.status, 200)
        self.assertEqual(response.getheader("Access-Control-Allow-Origin"), self.ORIGIN)
        self.assertIn("POST", response.getheader("Access-Control-Allow-Methods"))
        self.assertEqual(response.getheader("Access-Control-Allow-Headers"), "content-type")
        # A page can also read why it was refused.
        response, _ = self.ask(server, "GET", "/v1/models", Origin=self.ORIGIN)
        self.assertEqual(response.status, 401)
        self.assertEqual(response.getheader("Access-Control-Allow-Origin"), self.ORIGIN)
        self.assertEqual(response.getheader("Vary"), "Origin")
        response, _ = self.preflight(server, "https://evil.example")
        self.assertEqual(response.status, 400)
        self.assertIsNone(response.getheader("Access-Control-Allow-Origin"))

    def test_all_origins_and_streams(self):
        server = self.start("--allowed-origins", '["*"]')
        response, _ = server.request("POST", "/v1/completions", stories(stream=True), {"Origin": self.ORIGIN})
        self.assertEqual(response.status, 200)
        self.assertEqual(response.getheader("Access-Control-Allow-Origin"), "*")

    def test_only_the_allowed_headers(self):
        server = self.start("--allowed-origins", '["*"]', "--allowed-headers", '["X-One", "Content-Type"]')
        response, _ = self.preflight(server, self.ORIGIN)
        self.assertEqual(response.status, 200)
        self.assertEqual(response.getheader("Access-Control-Allow-Headers").lower(), "x-one, content-type")
        response, _ = self.ask(server, "OPTIONS", "/v1/completions", Origin=self.ORIGIN,
                               Access_Control_Request_Method="POST", Access_Control_Request_Headers="x-two")
        # The browser reads this list and then does not send the request.
        self.assertNotIn("x-two", response.getheader("Access-Control-Allow-Headers").lower())

    def test_methods_and_credentials(self):
        server = self.start("--allowed-origins", '["*"]', "--allowed-methods", '["GET"]', "--allow-credentials")
        response, _ = self.preflight(server, self.ORIGIN)
        self.assertEqual(response.status, 400)
        response, _ = self.ask(server, "GET", "/v1/models", Origin=self.ORIGIN)
        self.assertEqual(response.getheader("Access-Control-Allow-Origin"), self.ORIGIN)
        self.assertEqual(response.getheader("Access-Control-Allow-Credentials"), "true")


class PageFiles(Case):
    def test_a_file_is_sent_again_only_where_it_differs(self):
        server = self.start()
        tags = set()
        for path in ("/", "/page/chat.css", "/page/chat.js"):
            connection = server.connect()

            def get(tag=None):
                connection.request("GET", path, headers={} if tag is None else {"If-None-Match": tag})
                answer = connection.getresponse()
                return answer, answer.read()

            answer, body = get()
            tag = answer.headers["ETag"]
            self.assertEqual((answer.status, int(answer.headers["Content-Length"])), (200, len(body)))
            self.assertRegex(tag, r'^"[0-9a-f]{16}"$')
            tags.add(tag)
            for known in (tag, "W/" + tag, f'"0", {tag}', f'W/"0" ,W/{tag}', "*"):
                answer, body = get(known)
                self.assertEqual((answer.status, body, answer.headers["ETag"]), (304, b"", tag), known)
                self.assertEqual((answer.headers["Content-Length"], answer.headers["Content-Type"]), (None, None))
                self.assertEqual(answer.headers["Cache-Control"], "no-cache")
            for other in ('"0"', tag.strip('"'), "", ","):
                self.assertEqual(get(other)[0].status, 200, other)
            connection.close()
        self.assertEqual(len(tags), 3)
        raw = server.raw("GET / HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\nConnection: close\r\n\r\n".encode())
        self.assertTrue(raw.startswith(b"HTTP/1.1 304 Not Modified\r\n") and raw.endswith(b"\r\n\r\n"), raw)


class Listening(Case):
    def test_keys_of_a_file(self):
        path = os.path.join(self.folder(), "keys")
        with open(path, "w", encoding="ascii") as file:
            file.write("# ours\nfirst\n\nsecond\n")
        server = self.start("--api-key-file", path, "--api-key", "third", VLLM_API_KEY="fourth")
        for key, status in (("first", 200), ("second", 200), ("third", 200), ("fourth", 200), ("# ours", 401),
                            ("", 401), ("firs", 401), ("first ", 200), ("firstfirst", 401)):
            response, _ = server.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})
            self.assertEqual(response.status, status, key)
        self.assertIn("holds no key", self.refused("--api-key-file", os.devnull))

    def test_every_described_route_says_whether_it_needs_a_key(self):
        server = self.start("--api-key", "secret")
        _, text = server.request("GET", "/openapi.json")
        for path, operations in json.loads(text)["paths"].items():
            for method, operation in operations.items():
                response, _ = server.request(method.upper(), path.replace("{model_id}", NAME), "{}")
                self.assertEqual(response.status == 401, "security" in operation, path)

    def test_no_route_answers_without_a_key_unless_it_is_public(self):
        """Routes are read from the source, so that one that /openapi.json leaves out is tried too."""
        routes = {route for path in SERVER.rglob("*.cpp") for route in
                  re.findall(r'"(/(?:v1|v2)?[a-z0-9_/{}.-]*)"', path.read_text(encoding="utf-8"))}
        self.assertLessEqual({"/v1/completions", "/start_profile", "/sleep", "/v1/load_lora_adapter", "/is_sleeping"}, routes)
        server = self.start("--api-key", "secret", "--dev", "--enable-lora", "--profiler-config.torch_profiler_dir", self.folder(),
                            "--disable-uvicorn-access-log", VLLM_ALLOW_RUNTIME_LORA_UPDATING="1")
        described = json.loads(server.request("GET", "/openapi.json")[1])["paths"]
        public = {path for path, operations in described.items() if not all("security" in each for each in operations.values())}
        self.assertEqual(public, PUBLIC)
        count = 0
        for path in sorted(routes):
            path = path.replace("{model_id}", NAME)
            for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
                for key in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic secret"}):
                    status = server.request(method, path, "{}", {**key, "Origin": "http://localhost"})[0].status
                    count += 1
                    if path not in PUBLIC:
                        self.assertIn(status, (401, 404, 405), (method, path, key))
        self.assertGreater(count, 600)

    def test_a_server_at_work_opens_no_connection(self):
        """In a network of its own, whose counters tell of every connection that is tried. Clients come by a Unix socket."""
        if subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this user may make no network of its own")
        path = os.path.join(self.folder(), "socket")
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(["unshare", "-rn", serve_test.BINARY, "serve", serve_test.MODEL, "--uds", path,
                                        "--served-model-name", NAME], stdout=subprocess.DEVNULL, stderr=log)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            end = time.monotonic() + TIMEOUT
            while b"startup complete" not in os.pread(log.fileno(), 1 << 20, 0) and time.monotonic() < end:
                self.assertIsNone(process.poll())
                time.sleep(0.05)

            def ask(method, route, body=None):
                data = json.dumps(body).encode() if body else b""
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.settimeout(TIMEOUT)
                    connection.connect(path)
                    connection.sendall(f"{method} {route} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                       f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
                    return connection.makefile("rb").readline()

            chat = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5}
            for method, route, body in (("GET", "/v1/models", None), ("GET", "/metrics", None), ("GET", "/live", None),
                                        ("POST", "/v1/completions", stories(max_tokens=20, stream=True)),
                                        ("POST", "/v1/chat/completions", {**chat, "logprobs": True}),
                                        ("POST", "/v1/chat/completions", {**chat, "response_format": {"type": "json_object"}}),
                                        ("POST", "/tokenize", {"prompt": "a"})):
                self.assertIn(b" 200 ", ask(method, route, body), route)
            with open(f"/proc/{process.pid}/net/snmp", encoding="ascii") as file:
                rows = [line.split() for line in file]
            counters = {name: dict(zip(names[1:], values[1:])) for names, values in zip(rows[::2], rows[1::2])
                        for name in [names[0].rstrip(":")]}
            self.assertEqual((counters["Tcp"]["ActiveOpens"], counters["Udp"]["OutDatagrams"]), ("0", "0"))

    def test_a_key_of_the_environment(self):
        server = self.start(REPRISE_API_KEY="secret")
        for header, status in (({}, 401), ({"Authorization": "Bearer secret"}, 200)):
            response, _ = server.request("GET", "/v1/models", headers=header)
            self.assertEqual(response.status, status)

    def test_other_backends_of_structured_output_are_refused(self):
        for option in ("--guided-decoding-backend", "--structured-outputs-config.backend"):
            self.assertIn("xgrammar", self.refused(option, "outlines"))
        self.start("--guided-decoding-backend", "xgrammar", "--structured-outputs-config", '{"backend": "auto"}')

    def test_a_unix_socket(self):
        path = os.path.join(self.folder(), "reprise.sock")
        arguments = [serve_test.BINARY, "serve", serve_test.MODEL, "--uds", path, "--served-model-name", NAME]
        for _ in range(2):  # the second start finds the socket file of a killed server
            process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                deadline = time.monotonic() + TIMEOUT
                while True:
                    connection = socket.socket(socket.AF_UNIX)
                    connection.settimeout(TIMEOUT)
                    try:
                        connection.connect(path)
                        break
                    except OSError:
                        connection.close()
                        self.assertLess(time.monotonic(), deadline)
                        time.sleep(0.05)
                connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                self.assertTrue(connection.recv(4096).startswith(b"HTTP/1.1 200"))
                connection.close()
            finally:
                process.kill()
                process.wait(TIMEOUT)
            self.assertTrue(os.path.exists(path))

    def test_a_prefix(self):
        server = self.start("--root-path", "/llm/")
        for path, status in (("/llm/health", 200), ("/health", 200), ("/llmhealth", 404), ("/llm", 404)):
            self.assertEqual(server.request("GET", path)[0].status, status, path)

    def test_a_port_that_is_taken(self):
        server = self.start()
        told = self.refused("--port", str(server.port))
        self.assertIn(f"cannot listen on 127.0.0.1:{server.port}", told)
        self.assertIn("another --port", told)

    def test_a_killed_server_leaves_its_port(self):
        server = self.start()
        # An open connection is what could keep the port in use.
        connection = server.connect()
        connection.request("GET", "/health")
        connection.getresponse().read()
        server.stop(signal.SIGKILL)
        again = Server("--port", str(server.port))
        self.assertEqual(again.port, server.port)
        self.assertEqual(again.stop(), 0)
        connection.close()

    def test_access_lines(self):
        server = self.start("--disable-access-log-for-endpoints", "/metrics,/health")
        for path in ("/health", "/v1/models?x=1", "/none", "/metrics"):
            server.request("GET", path)
        server.raw(b"GET /\xff\x80 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        server.wait_until(lambda: "/\\xff\\x80" in server.text())
        self.assertRegex(server.text(), r'(?m)^INFO \d\d-\d\d \d\d:\d\d:\d\d \[access\] 127\.0\.0\.1:\d+ - '
                                        r'"GET /v1/models\?x=1 HTTP/1\.1" 200 OK duration=\d+\.\d{3}s$')
        self.assertRegex(server.text(), r'"GET /none HTTP/1\.1" 404 Not Found duration=\d+\.\d{3}s\n')
        self.assertNotIn("GET /health", server.text())
        self.assertNotIn("GET /metrics", server.text())

    def test_no_access_lines(self):
        server = self.start("--disable-uvicorn-access-log")
        server.request("GET", "/health")
        server.stop()  # writes what is left of the log
        self.assertNotIn("GET", server.text())


class Hostile(Case):
    def test_a_long_text_is_tokenized_while_streams_go_on(self):
        server = self.start()
        text = "It was a dark and stormy night. " * 40000  # 1.3 MB
        expected = {}

        def tokenize():
            expected.update(server.post("/tokenize", {"prompt": text})[1])

        thread = threading.Thread(target=tokenize)
        thread.start()
        probes = 0
        while thread.is_alive():
            server.request("GET", "/health")
            probes += 1
        thread.join()
        _, short = server.post("/tokenize", {"prompt": "It was a dark and stormy night. "})
        self.assertGreater(expected["count"], 40000)
        self.assertGreater(short["count"], 4)
        status, answer = server.post("/v1/completions", {"prompt": text})
        self.assertEqual(status, 400, answer)
        self.assertEqual(answer["error"]["param"], "input_tokens")

    def test_a_client_that_goes_while_its_text_is_read(self):
        server = self.start()
        body = json.dumps(stories(prompt="a " * 200000)).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        for _ in range(10):
            with socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT) as connection:
                connection.sendall(head.encode() + body)
        server.wait_until(lambda: server.post("/v1/completions", stories())[0] == 200)

    def test_random_and_broken_bytes(self):
        server = self.start("--disable-uvicorn-access-log")
        chance = random.Random(5)
        body = json.dumps(stories(max_tokens=1)).encode()
        good = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
                + str(len(body)).encode() + b"\r\n\r\n" + body)
        for number in range(400):
            kind = number % 4
            if kind == 0:
                data = chance.randbytes(chance.randrange(1, 2000))
            elif kind == 1:
                data = good[: chance.randrange(len(good))]
            else:
                broken = bytearray(good)
                for _ in range(chance.randrange(1, 6)):
                    broken[chance.randrange(len(broken))] = chance.randrange(256)
                data = bytes(broken)
                if kind == 3:
                    data = data.replace(b"Content-Length", b"Transfer-Encoding: chunked\r\nX")
            with socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT) as connection:
                try:
                    connection.sendall(data)
                    connection.shutdown(socket.SHUT_WR)
                    received = connection.recv(65536)
                except OSError:
                    continue
                if received:
                    self.assertRegex(received, rb"^HTTP/1\.1 ([1-4]\d\d|50[15]) ", data)
        self.assertEqual(server.post("/v1/completions", stories())[0], 200)


class Dialects(Case):
    """Routes of other APIs: keys, errors and streams in the form of their clients."""

    def test_anthropics_key_has_a_header_of_its_own(self):
        server = self.start(VLLM_API_KEY="secret")
        body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
        response, text = server.request("POST", "/v1/messages", body, {"x-api-key": "secret"})
        self.assertEqual((response.status, json.loads(text)["type"]), (200, "message"), text)
        for headers in ({"x-api-key": "wrong"}, {}, {"x-api-key": "secret", "Authorization": "Bearer wrong"}):
            response, text = server.request("POST", "/v1/messages", body, headers)
            self.assertEqual(response.status, 401)
            self.assertEqual(json.loads(text)["error"]["type"], "authentication_error")

    def test_errors_have_the_form_of_the_api(self):
        server = self.start()
        for path, wanted in (("/v1/messages", {"type": "error", "error": {"type": "invalid_request_error", "message": None}}),
                             ("/v1/responses", {"error": {"message": None, "type": "BadRequestError", "param": "input", "code": 400}}),
                             ("/api/chat", {"error": None})):
            response, text = server.request("POST", path, {"model": NAME})
            answer = json.loads(text)
            self.assertEqual(response.status, 400, text)
            if isinstance(answer["error"], str):
                answer["error"] = None
            else:
                self.assertIn("required", answer["error"]["message"])
                answer["error"]["message"] = None
            self.assertEqual(answer, wanted)

    def test_answers_are_those_of_the_chat(self):
        server = self.start()
        messages = [{"role": "user", "content": "What is 3 + 4?"}]
        chat = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 9, "temperature": 0})[1]
        text = chat["choices"][0]["message"]["content"]
        message = server.post("/v1/messages", {"messages": messages, "max_tokens": 9, "temperature": 0})[1]
        self.assertEqual(message["content"], [{"type": "text", "text": text}])
        self.assertEqual(message["usage"]["input_tokens"], chat["usage"]["prompt_tokens"])
        counted = server.post("/v1/messages/count_tokens", {"messages": messages})[1]
        self.assertEqual(counted, {"input_tokens": chat["usage"]["prompt_tokens"]})
        response = server.post("/v1/responses", {"input": messages, "max_output_tokens": 9, "temperature": 0})[1]
        self.assertEqual(response["output"][0]["content"][0]["text"], text)
        body = {"model": NAME, "messages": messages, "options": {"num_predict": 9, "temperature": 0}}
        head, lines = server.request("POST", "/api/chat", body)
        self.assertEqual(head.headers["Content-Type"], "application/x-ndjson; charset=utf-8")
        parts = [json.loads(line) for line in lines.splitlines()]
        self.assertEqual("".join(part["message"]["content"] for part in parts), text)
        self.assertEqual([part["done"] for part in parts], [False] * (len(parts) - 1) + [True])
        whole = server.post("/api/chat", {**body, "stream": False})[1]
        for ended in (whole, parts[-1]):  # nine tokens take time after the first one
            self.assertTrue(0 < ended["eval_duration"] < ended["total_duration"], ended)

    def test_a_raw_prompt_is_continued_as_it_is(self):
        server = self.start()
        text = server.post("/v1/completions", stories(max_tokens=20))[1]["choices"][0]["text"]
        asked = {"model": NAME, "prompt": "Once upon a time", "raw": True, "options": {"temperature": 0, "num_predict": 20}}
        whole = server.post("/api/generate", {**asked, "stream": False})[1]
        self.assertEqual((whole["response"], whole["done_reason"], whole["eval_count"]), (text, "length", 20))
        _, lines = server.request("POST", "/api/generate", asked)
        self.assertEqual("".join(json.loads(line)["response"] for line in lines.splitlines()), text)
        # Without a limit the model ends the text, which takes more than the 16 tokens of OpenAI's API.
        ended = server.post("/api/generate", {**asked, "stream": False, "options": {"temperature": 0}})[1]
        self.assertEqual((ended["done_reason"], ended["eval_count"] > 20), ("stop", True), ended)

    def test_a_body_without_a_question_only_loads_the_model(self):
        server = self.start()
        for path, body, told in (("/api/chat", {"messages": []}, {"message": {"role": "assistant", "content": ""}}),
                                 ("/api/generate", {"keep_alive": 0, "prompt": ""}, {"response": ""}),
                                 ("/api/generate", {}, {"response": ""})):
            status, answer = server.post(path, {"model": NAME, **body})
            self.assertRegex(answer.pop("created_at"), r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
            self.assertEqual((status, answer), (200, {"model": NAME, "done": True, "done_reason": "load", **told}))
            self.assertEqual(server.post(path, {"model": "nobody", **body})[0], 404)
        self.assertEqual(server.metric("vllm:generation_tokens_total"), 0)

    def test_usage_tells_what_the_prefix_cache_had(self):
        server = self.start()
        messages = [{"role": "user", "content": "Tell me of an owl. " * 20}]
        chat = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 2})[1]
        num_tokens = chat["usage"]["prompt_tokens"]
        self.assertIsNone(chat["usage"]["prompt_tokens_details"])  # vLLM's --enable-prompt-tokens-details
        usage = server.post("/v1/messages", {"messages": messages, "max_tokens": 2})[1]["usage"]
        self.assertGreater(usage["cache_read_input_tokens"], num_tokens // 2)
        self.assertEqual(usage["cache_read_input_tokens"] + usage["input_tokens"], num_tokens)
        usage = server.post("/v1/responses", {"input": messages, "max_output_tokens": 2})[1]["usage"]
        self.assertGreater(usage["input_tokens_details"]["cached_tokens"], num_tokens // 2)
        self.assertEqual(usage["input_tokens"], num_tokens)

    def test_responses_are_kept_until_they_are_deleted(self):
        server = self.start()
        kept = server.post("/v1/responses", {"input": "Hi", "max_output_tokens": 3})[1]
        path = f"/v1/responses/{kept['id']}"
        self.assertEqual(json.loads(server.request("GET", path)[1]), kept)
        response, text = server.request("GET", path + "/input_items")
        self.assertEqual((response.status, json.loads(text)["error"]["message"]), (404, "Not Found"))
        more = server.post("/v1/responses", {"input": "More", "previous_response_id": kept["id"], "max_output_tokens": 3})[1]
        self.assertGreater(more["usage"]["input_tokens"], kept["usage"]["total_tokens"])
        self.assertEqual(json.loads(server.request("DELETE", path)[1])["deleted"], True)
        self.assertEqual(server.request("GET", path)[0].status, 404)
        status, answer = server.post("/v1/responses", {"input": "More", "previous_response_id": kept["id"]})
        self.assertEqual((status, answer["error"]["param"]), (404, "previous_response_id"))

    def test_ollamas_clients_find_the_model(self):
        server = self.start()
        (model,) = json.loads(server.request("GET", "/api/tags")[1])["models"]
        self.assertEqual(model["name"], NAME)
        status, shown = server.post("/api/show", {"model": model["name"]})
        self.assertEqual((status, "completion" in shown["capabilities"]), (200, True))
        self.assertIn("version", json.loads(server.request("GET", "/api/version")[1]))
        self.assertEqual(server.request("HEAD", "/api/tags")[0].status, 200)


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
