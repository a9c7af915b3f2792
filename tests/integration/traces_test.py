#!/usr/bin/env python3
"""Traces of `reprise serve`: spans as OTLP/HTTP JSON at a collector, and collectors that are slow, gone, or speak gRPC.

    traces_test.py REPRISE_BINARY MODEL_FOLDER

Uses Python's standard library. With the packages opentelemetry-proto and protobuf it also reads every body by the
published .proto files.
"""

import base64
import http.server
import json
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import serve_test
from serve_test import TIMEOUT, Server

try:
    from google.protobuf import json_format
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
except ImportError:
    trace_service_pb2 = None

BODY = {"prompt": "Once upon a time", "max_tokens": 6, "ignore_eos": True, "seed": 1, "temperature": 0.7, "top_p": 0.9}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
VALUES = {"stringValue": str, "doubleValue": (int, float), "intValue": str, "arrayValue": dict, "boolValue": bool}


def check_by_protobuf(body):
    """Reads the body with the .proto files of OpenTelemetry. Their JSON has base64 in place of hexadecimal ids."""
    if trace_service_pb2 is None:
        return
    body = json.loads(json.dumps(body))
    for span in spans_of(body):
        for key in ("traceId", "spanId", "parentSpanId"):
            if key in span:
                span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
    request = json_format.ParseDict(body, trace_service_pb2.ExportTraceServiceRequest())  # refuses unknown fields
    for span in request.resource_spans[0].scope_spans[0].spans:
        assert len(span.trace_id) == 16 and len(span.span_id) == 8, span


def spans_of(body):
    [resource] = body["resourceSpans"]
    [scope] = resource["scopeSpans"]
    return scope["spans"]


def check_span(span):
    """The rules of the encoding: hexadecimal ids, 64-bit integers as strings, numbers for enumerators."""
    assert re.fullmatch(r"[0-9a-f]{32}", span["traceId"]) and int(span["traceId"], 16), span
    assert re.fullmatch(r"[0-9a-f]{16}", span["spanId"]) and int(span["spanId"], 16), span
    assert re.fullmatch(r"[0-9a-f]{16}", span.get("parentSpanId", "0" * 16)), span
    for key in ("startTimeUnixNano", "endTimeUnixNano"):
        assert isinstance(span[key], str) and abs(int(span[key]) / 1e9 - time.time()) < 3600, span
    assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
    assert span["kind"] == 2 and isinstance(span["flags"], int)
    keys = [attribute["key"] for attribute in span["attributes"]]
    assert len(keys) == len(set(keys)), keys
    for attribute in span["attributes"]:
        [(kind, value)] = attribute["value"].items()
        assert isinstance(value, VALUES[kind]), attribute
        assert kind != "intValue" or re.fullmatch(r"-?\d+", value), attribute


def attributes_of(span):
    def plain(value):
        [(kind, held)] = value.items()
        if kind == "arrayValue":
            return [plain(each) for each in held["values"]]
        return int(held) if kind == "intValue" else held

    return {attribute["key"]: plain(attribute["value"]) for attribute in span["attributes"]}


class Collector:
    """Takes OTLP/HTTP JSON on loopback. `status` answers; `delay` is waited before an answer."""

    def __init__(self, status=200, delay=0.0, tls=None):
        self.spans, self.headers, self.paths, self.bodies = [], [], [], []
        self.problems = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                try:
                    assert self.headers["Content-Type"] == "application/json"
                    for span in spans_of(body):
                        check_span(span)
                    check_by_protobuf(body)
                except Exception as error:  # told by the test, in its own thread
                    outer.problems.append(error)
                outer.bodies.append(body)
                outer.headers.append(self.headers)
                outer.paths.append(self.path)
                outer.spans += spans_of(body)
                time.sleep(delay)
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        assert not self.problems, self.problems

    def wait_for(self, count):
        deadline = time.monotonic() + TIMEOUT
        while len(self.spans) < count:
            assert time.monotonic() < deadline, self.bodies
            time.sleep(0.02)
        return self.spans


class Case(unittest.TestCase):
    def start(self, *options, **environment):
        server = Server(*options, **environment)
        self.addCleanup(server.stop)
        return server

    def collector(self, **options):
        collector = Collector(**options)
        self.addCleanup(collector.close)
        return collector

    def refused(self, endpoint, **environment):
        done = subprocess.run([serve_test.BINARY, "serve", serve_test.MODEL, "--otlp-traces-endpoint", endpoint],
                              capture_output=True, text=True, timeout=TIMEOUT, env=environment)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr


class Spans(Case):
    def test_a_span_of_each_request(self):
        collector = self.collector()
        server = self.start("--otlp-traces-endpoint", collector.url + "/v1/traces", OTEL_SERVICE_NAME="my-llm")
        began = time.time()
        _, answer = server.post("/v1/completions", BODY)
        [span] = collector.wait_for(1)
        ended = time.time()
        self.assertEqual(span["name"], "llm_request")
        self.assertNotIn("parentSpanId", span)
        self.assertEqual(span["status"], {})
        self.assertLess(began - 0.1, int(span["startTimeUnixNano"]) / 1e9)
        self.assertLess(int(span["endTimeUnixNano"]) / 1e9, ended + 0.1)
        values = attributes_of(span)
        self.assertEqual(values["gen_ai.request.id"], answer["id"])
        self.assertEqual(values["gen_ai.response.model"], serve_test.NAME)
        self.assertEqual(values["gen_ai.usage.prompt_tokens"], answer["usage"]["prompt_tokens"])
        self.assertEqual(values["gen_ai.usage.completion_tokens"], 6)
        self.assertEqual(values["gen_ai.request.max_tokens"], 6)
        self.assertEqual(values["gen_ai.request.temperature"], 0.7)
        self.assertEqual(values["gen_ai.request.top_p"], 0.9)
        self.assertEqual(values["gen_ai.request.n"], 1)
        self.assertEqual(values["gen_ai.response.finish_reasons"], ["length"])
        time_of = {key.rsplit(".", 1)[1]: value for key, value in values.items() if ".latency." in key}
        self.assertEqual(time_of.keys(), {"e2e", "time_in_queue", "time_to_first_token", "time_in_model_prefill",
                                          "time_in_model_decode", "time_in_model_inference"})
        self.assertAlmostEqual(time_of["time_in_model_prefill"] + time_of["time_in_model_decode"],
                               time_of["time_in_model_inference"], places=6)
        self.assertLess(0, time_of["time_in_queue"])
        self.assertLess(time_of["time_in_model_prefill"], time_of["time_to_first_token"])
        self.assertLess(time_of["time_to_first_token"] + time_of["time_in_model_decode"], time_of["e2e"])
        self.assertAlmostEqual(time_of["e2e"],
                               (int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])) / 1e9, places=6)
        self.assertIn({"key": "service.name", "value": {"stringValue": "my-llm"}},
                      collector.bodies[0]["resourceSpans"][0]["resource"]["attributes"])
        # The collector knows of the span before the server has its answer.
        server.wait_until(lambda: server.metric("reprise:trace_spans_exported_total") == 1)
        self.assertEqual(server.metric("reprise:trace_spans_dropped_total"), 0)

    def test_the_trace_of_the_client_goes_on(self):
        collector = self.collector()
        server = self.start("--otlp-traces-endpoint", collector.url)
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "congo=t61rcWkgMzE"}
        for body in ({**BODY, "n": 2}, {**BODY, "stream": True}):
            server.request("POST", "/v1/completions", body, headers)
        server.request("POST", "/v1/completions", BODY, {"traceparent": f"00-{TRACE}-{PARENT}-00"})  # not sampled
        server.request("POST", "/v1/completions", BODY, {"traceparent": f"00-{TRACE}-{'0' * 16}-01"})  # not of the form
        chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
        server.request("POST", "/v1/chat/completions", chat, headers)
        spans = collector.wait_for(5)
        server.stop()
        self.assertEqual(len(spans), 5)
        ours = [span for span in spans if span["traceId"] == TRACE]
        self.assertEqual(len(ours), 4)
        for span in ours:
            self.assertEqual(span["parentSpanId"], PARENT)
            self.assertEqual(span["traceState"], "congo=t61rcWkgMzE")
        self.assertEqual(len({span["spanId"] for span in spans}), 5)
        ids = [attributes_of(span)["gen_ai.request.id"] for span in ours]
        self.assertEqual(len(set(ids)), 4, ids)
        self.assertEqual(set(collector.paths), {"/v1/traces"})

    def test_headers_of_the_environment(self):
        collector = self.collector()
        server = self.start(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=collector.url + "/otlp/mine",
                            OTEL_EXPORTER_OTLP_TRACES_HEADERS="x-key=a%20b%3D, x-team = llm",
                            OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="http/protobuf")
        server.post("/v1/completions", BODY)
        collector.wait_for(1)
        self.assertEqual(collector.headers[0]["x-key"], "a b=")
        self.assertEqual(collector.headers[0]["x-team"], "llm")
        self.assertEqual(collector.paths, ["/otlp/mine"])

    def test_the_last_spans_go_out_at_the_end(self):
        collector = self.collector()
        server = self.start("--otlp-traces-endpoint", collector.url)
        server.post("/v1/completions", BODY)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(len(collector.spans), 1)

    def test_over_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                            "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{folder}/key",
                            "-out", f"{folder}/pem"], check=True, capture_output=True)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(f"{folder}/pem", f"{folder}/key")
            collector = self.collector(tls=context)
            trusting = self.start("--otlp-traces-endpoint", collector.url, SSL_CERT_FILE=f"{folder}/pem")
            wary = self.start("--otlp-traces-endpoint", collector.url)
            for server in (trusting, wary):
                server.post("/v1/completions", BODY)
            collector.wait_for(1)
            wary.wait_until(lambda: wary.metric("reprise:trace_spans_dropped_total") == 1)
            self.assertIn("were not taken by the collector", wary.log_so_far())
            self.assertEqual(len(collector.spans), 1)


class BadCollectors(Case):
    def run_beside(self, url, **environment):
        """Requests beside a bad collector: returns their longest time, and the server."""
        server = self.start("--otlp-traces-endpoint", url, **environment)
        longest = 0
        for _ in range(20):
            began = time.monotonic()
            status, _ = server.post("/v1/completions", BODY)
            self.assertEqual(status, 200)
            longest = max(longest, time.monotonic() - began)
        return longest, server

    def test_one_that_is_gone(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
        longest, server = self.run_beside(url)
        server.wait_until(lambda: server.metric("reprise:trace_spans_dropped_total") == 20)
        self.assertLess(longest, 10)
        log = server.log_so_far()
        self.assertEqual(log.count("were not taken by the collector"), 1, log)

    def test_one_that_takes_the_connection_and_says_nothing(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            longest, server = self.run_beside(f"http://127.0.0.1:{listener.getsockname()[1]}",
                                              OTEL_EXPORTER_OTLP_TRACES_TIMEOUT="500")
            self.assertLess(longest, 10)
            server.wait_until(lambda: server.metric("reprise:trace_spans_dropped_total") > 0)
            self.assertIn("did not answer in time", server.log_so_far())

    def test_one_that_never_answers_does_not_keep_the_server(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            _, server = self.run_beside(f"http://127.0.0.1:{listener.getsockname()[1]}",
                                        OTEL_EXPORTER_OTLP_TRACES_TIMEOUT="600000")
            began = time.monotonic()
            self.assertEqual(server.stop(), 0)
            self.assertLess(time.monotonic() - began, 60)

    def test_one_that_refuses(self):
        collector = self.collector(status=503)
        _, server = self.run_beside(collector.url)
        server.wait_until(lambda: server.metric("reprise:trace_spans_dropped_total") == 20)
        self.assertEqual(server.metric("reprise:trace_spans_exported_total"), 0)
        self.assertIn("status 503", server.log_so_far())


class Refusals(Case):
    def test_grpc_is_refused_with_what_to_use(self):
        self.assertIn("gRPC is not supported; name the collector's HTTP receiver, usually http://HOST:4318/v1/traces",
                      self.refused("grpc://localhost:4317"))
        self.assertIn("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'grpc' is not supported",
                      self.refused("http://localhost:4318", OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="grpc"))

    def test_wrong_values_are_named(self):
        self.assertIn("--otlp-traces-endpoint", self.refused("localhost:4318"))
        for headers in ("no-value", "a b=c", "x=%4", "x=%0a", "=v"):
            message = self.refused("http://localhost:4318", OTEL_EXPORTER_OTLP_TRACES_HEADERS=f"ok=secret,{headers}")
            self.assertIn("OTEL_EXPORTER_OTLP_TRACES_HEADERS: part 2 is not name=value", message)
            self.assertNotIn("secret", message)
        for value in ("0", "-1", "soon"):
            self.assertIn("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
                          self.refused("http://localhost:4318", OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=value))

    def test_without_an_endpoint_there_are_no_metrics_of_traces(self):
        server = self.start()
        _, text = server.request("GET", "/metrics")
        self.assertNotIn(b"\nreprise:trace_spans_exported_total{", text)


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1], verbosity=2)
