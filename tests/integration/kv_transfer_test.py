#!/usr/bin/env python3
"""`--kv-transfer-config`: one server computes prompts, another continues them. Arguments: BINARY MODEL PROXY.

The oracle is one server that does both. Usage: kv_transfer_test.py build/release/bin/reprise models/reprise-tiny
deploy/disaggregated/proxy.py
"""

import collections
import concurrent.futures
import hashlib
import hmac
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import serve_test

PROXY = ""
PROMPTS = ["Once upon a time", "One day, a small dog " * 7, "The sun was warm. " * 20 + "Lily said", "A"]
DECODE_ONLY = ["-cc.cudagraph_mode", "FULL_DECODE_ONLY"]
SECRET = "a secret of sixteen bytes or more"
FAILED = "The keys and values of the prompt could not be fetched; the log of this server says why."


def transfer(connector, role, **more):
    return ["--kv-transfer-config", json.dumps({"kv_connector": connector, "kv_role": role, **more})]


class Pair:
    """A server that computes prompts, one that continues them, and the steps of a proxy between them."""

    def __init__(self, test, connector, decode_options=(), more_peers=(), secret=SECRET, **decode_config):
        environment = {"REPRISE_KV_TRANSFER_SECRET": secret} if secret else {}
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.prefill = serve_test.Server(*transfer(connector, "kv_producer", kv_port=self.port), **environment)
        test.addCleanup(self.stop, self.prefill)
        extra = {"peers": [f"127.0.0.1:{port}" for port in (self.port, *more_peers)]}
        self.decode = serve_test.Server(*transfer(connector, "kv_consumer", kv_connector_extra_config=extra, **decode_config),
                                        *DECODE_ONLY, *decode_options, **environment)
        test.addCleanup(self.stop, self.decode)

    @staticmethod
    def stop(server):
        if not server.log.closed:
            server.stop()

    def begin(self, body, path="/v1/completions"):
        """The parameters with which the other server continues the prompt."""
        first = {**body, "max_tokens": 1, "stream": False, "n": 1,
                 "kv_transfer_params": {"do_remote_decode": True, "do_remote_prefill": False}}
        status, answer = self.prefill.post(path, first)
        assert status == 200, answer
        return answer["kv_transfer_params"]

    def end(self, body, params, path="/v1/completions"):
        return self.decode.post(path, {**body, "kv_transfer_params": params})


class UnknownPeer:
    """A listener at a port of this machine, which does with each connection what `act` says."""

    def __init__(self, test, act):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.act, self.held = act, []
        threading.Thread(target=self.run, daemon=True).start()
        test.addCleanup(self.stop)

    def run(self):
        try:
            while True:
                peer, _ = self.listener.accept()
                self.held.append(peer)
                self.act(peer)
        except OSError:  # the test is over, or the peer has disconnected
            pass

    def stop(self):
        self.listener.close()
        for peer in self.held:
            peer.close()


def text_bytes(*texts):
    return b"".join(struct.pack("<Q", len(text)) + text for text in (text.encode() for text in texts))


def prompt_code(tokens, nonce):
    """What a producer without a secret says about a prompt: anyone who knows the tokens can."""
    ids = struct.pack(f"<{len(tokens)}i", *tokens)
    digest = hashlib.sha256(struct.pack("<QQ", len(ids), 0) + ids).hexdigest()
    return hmac.new(b"", text_bytes("prompt", nonce, digest), hashlib.sha256).hexdigest()


class KvTransfer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.alone = serve_test.Server()

    @classmethod
    def tearDownClass(cls):
        cls.alone.stop()

    def expect_same(self, pair, body, path="/v1/completions"):
        status, expected = self.alone.post(path, body)
        self.assertEqual(status, 200, expected)
        status, answer = pair.end(body, pair.begin(body, path), path)
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["choices"], expected["choices"])
        return answer

    def test_a_pair_answers_as_one_server_does(self):
        for connector in ("TcpConnector", "SharedMemoryConnector"):
            with self.subTest(connector):
                pair = Pair(self, connector)
                for prompt in PROMPTS:
                    self.expect_same(pair, {"prompt": prompt, "max_tokens": 20, "temperature": 0, "logprobs": 2})
                self.expect_same(pair, {"prompt": PROMPTS[1], "max_tokens": 20, "temperature": 1, "seed": 7, "n": 3})
                self.expect_same(pair, {"messages": [{"role": "user", "content": "Tell a story."}], "max_tokens": 20},
                                 "/v1/chat/completions")
                self.expect_same(pair, {"prompt": PROMPTS[0], "max_tokens": 12, "structured_outputs": {"regex": "[a-f ]{5,9}"}})

    def test_requests_side_by_side_replay_full_graphs_only(self):
        pair = Pair(self, "TcpConnector", ["--enable-prompt-tokens-details"])
        bodies = [{"prompt": f"{PROMPTS[i % 3]} {i}", "max_tokens": 30, "temperature": 0, "ignore_eos": True} for i in range(24)]
        expected = [self.alone.post("/v1/completions", body)[1]["choices"] for body in bodies]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda body: pair.end(body, pair.begin(body))[1], bodies))
        self.assertEqual([answer["choices"] for answer in answers], expected)
        for answer in answers:
            usage = answer["usage"]
            self.assertEqual(usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"] - 1)
        steps = collections.Counter()
        for (mode, _), count in self.steps_of(pair.decode).items():
            steps[mode] += count
        self.assertGreater(steps["FULL"], 30)
        self.assertEqual(steps.total(), steps["FULL"], steps)
        num_tokens = sum(answer["usage"]["prompt_tokens"] for answer in answers)
        # The beginnings of later prompts were already in the cache.
        sources = {name: pair.decode.metric("vllm:prompt_tokens_by_source_total", f'source="{name}"')
                   for name in ("external_kv_transfer", "local_cache_hit", "local_compute")}
        self.assertEqual(sum(sources.values()), num_tokens)
        self.assertEqual(sources["local_compute"], len(answers))
        self.assertGreater(sources["external_kv_transfer"], 100)
        self.assertEqual(pair.decode.metric("reprise:kv_transfer_tokens_total"), num_tokens)
        pair.prefill.wait_until(lambda: pair.prefill.metric("reprise:kv_transfer_waiting_bytes") == 0)

    @staticmethod
    def steps_of(server):
        """The number of steps by runtime mode and descriptor."""
        steps = collections.Counter()
        for line in server.request("GET", "/metrics")[1].decode().splitlines():
            if line.startswith("reprise:cudagraph_dispatch_total"):
                mode, descriptor = (line.split(f'{label}="')[1].split('"')[0] for label in ("runtime_mode", "descriptor"))
                steps[mode, descriptor] += float(line.rsplit(" ", 1)[1])
        return steps

    def test_the_first_step_of_a_server_with_drafts_replays_a_full_graph(self):
        # The first step of a request has its last prompt token and no drafts, so its width is that of a step without
        # speculation.
        pair = Pair(self, "TcpConnector", ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}'])
        bodies = [{"prompt": f"{PROMPTS[i % 3]} {i}", "max_tokens": 1, "temperature": 0} for i in range(12)]
        expected = [self.alone.post("/v1/completions", body)[1]["choices"] for body in bodies]
        begun = [(body, pair.begin(body)) for body in bodies]
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda request: pair.end(*request)[1]["choices"], begun))
        self.assertEqual(answers, expected)
        first = self.steps_of(pair.decode)
        self.assertGreater(first.total(), 0)
        for mode, descriptor in first:
            tokens, reqs = (int(part.split("=")[1]) for part in descriptor.split()[:2])
            self.assertEqual((mode, tokens), ("FULL", reqs), descriptor)
        # The bias makes the answer repeat one word, so later steps have three drafts.
        self.expect_same(pair, {"prompt": PROMPTS[1], "max_tokens": 60, "temperature": 0, "ignore_eos": True,
                                "logit_bias": {"300": 100}})
        later = self.steps_of(pair.decode)
        self.assertIn(("FULL", "tokens=4 reqs=1 uniform"), later)
        self.assertEqual({mode for mode, _ in later}, {"FULL"}, later)

    def test_a_producer_that_is_gone_is_named_or_replaced(self):
        body = {"prompt": PROMPTS[1], "max_tokens": 10, "temperature": 0}
        expected = self.alone.post("/v1/completions", body)[1]["choices"]
        for policy in ("fail", "recompute"):
            pair = Pair(self, "TcpConnector", kv_load_failure_policy=policy)
            params = pair.begin(body)
            pair.prefill.process.kill()
            pair.prefill.process.wait()
            status, answer = pair.end(body, params)
            self.assertIn(f"127.0.0.1:{pair.port}", pair.decode.log_so_far())
            if policy == "fail":
                self.assertEqual(status, 503, answer)
                self.assertIn(FAILED, answer["error"]["message"])
                self.assertNotIn(str(pair.port), answer["error"]["message"])
            else:
                self.assertEqual((status, answer["choices"]), (200, expected))
            self.assertEqual(pair.decode.metric("reprise:kv_transfer_failures_total"), 1)
            # Nothing is kept for the request that failed.
            self.assertEqual(pair.decode.post("/v1/completions", body)[1]["choices"], expected)

    def test_what_a_client_may_not_ask_is_refused(self):
        pair = Pair(self, "TcpConnector")
        good = pair.begin({"prompt": "a"})
        for params, what in (({**good, "remote_host": "169.254.169.254"}, "peers"),
                             ({**good, "remote_port": pair.decode.port}, "peers"), ({**good, "remote_host": "a\nb"}, r"a\u{a}b"),
                             ({**good, "remote_port": 0}, "remote_port"),
                             ({**good, "remote_request_id": ""}, "remote_request_id"),
                             ({"do_remote_decode": True}, "kv_consumer"), ([], "kv_transfer_params")):
            status, answer = pair.decode.post("/v1/completions", {"prompt": "a", "kv_transfer_params": params})
            self.assertEqual(status, 400, answer)
            self.assertIn(what, answer["error"]["message"])
        status, answer = pair.decode.post("/v1/completions", {"prompt": "b", "kv_transfer_params": good})
        self.assertEqual(status, 503, answer)
        self.assertIn(FAILED, answer["error"]["message"])
        self.assertIn("another prompt", pair.decode.log_so_far())
        status, answer = self.alone.post("/v1/completions", {"prompt": "a", "kv_transfer_params": good})
        self.assertEqual(status, 400)
        self.assertIn("--kv-transfer-config", answer["error"]["message"])

    def test_silent_ports_and_sockets_do_not_stop_others(self):
        silent = UnknownPeer(self, lambda peer: None)
        pair = Pair(self, "TcpConnector", more_peers=[silent.port])
        for _ in range(40):
            connection = socket.create_connection(("127.0.0.1", pair.port))
            self.addCleanup(connection.close)
        body = {"prompt": PROMPTS[1], "max_tokens": 5, "temperature": 0}
        bad = {**pair.begin(body), "remote_port": silent.port}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            stuck = [pool.submit(pair.end, body, bad) for _ in range(8)]
            while len(silent.held) < 8:
                time.sleep(0.01)
            begin = time.monotonic()
            self.expect_same(pair, body)
            self.assertLess(time.monotonic() - begin, 4)
            for request in stuck:
                self.assertEqual(request.result()[0], 503)
        self.assertLess(time.monotonic() - begin, 20)

    def test_a_client_learns_nothing_about_other_ports(self):
        banner = b"SSH-2.0-Secret_banner\x1b[31m\r\n"
        talks = UnknownPeer(self, lambda peer: peer.sendall(banner))
        lies = UnknownPeer(self, lambda peer: peer.sendall(b'{"status":"error","message":"Secret_text"}\n'))
        wrong = UnknownPeer(self, lambda peer: peer.sendall(b'{"status":"ok","model":"","prompt":"","num_tokens":1,"num_bytes":"x"}\n'))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            closed = taken.getsockname()[1]
        ports = [talks.port, lies.port, wrong.port, closed]
        pair = Pair(self, "TcpConnector", more_peers=ports, secret=None)
        body = {"prompt": PROMPTS[1], "max_tokens": 5}
        good = pair.begin(body)
        answers = {json.dumps(pair.end(body, {**good, "remote_port": port})) for port in ports}
        self.assertEqual(len(answers), 1, answers)
        self.assertIn(FAILED, answers.pop())
        log = pair.decode.log_so_far()
        self.assertIn("Secret_text", log)
        for port in ports:
            self.assertIn(f"127.0.0.1:{port}: ", log)
        self.assertNotIn("\x1b[31m", log)
        self.assertNotIn("json.exception", log)
        # Any other port is refused before a connection is attempted.
        before = len(talks.held)
        status, answer = pair.end(body, {**good, "remote_host": "127.0.0.2", "remote_port": talks.port})
        self.assertEqual((status, "peers" in answer["error"]["message"]), (400, True))
        self.assertEqual(len(talks.held), before)

    def header_of(self, pair, secret, tokens):
        """What a real producer says to somebody who knows an id, and the secret if there is one."""
        get = {"op": "get", "id": pair.begin({"prompt": tokens})["remote_request_id"], "nonce": "0" * 32}
        if secret:
            get["mac"] = hmac.new(secret.encode(), text_bytes("get", get["id"], get["nonce"]), hashlib.sha256).hexdigest()
        with socket.create_connection(("127.0.0.1", pair.port)) as peer:
            peer.sendall(json.dumps(get).encode() + b"\n")
            return json.loads(peer.makefile("rb").readline())

    def test_a_lying_producer_poisons_no_other_request(self):
        system = "The quick brown fox said: " * 8
        tokens = self.alone.post("/tokenize", {"prompt": system})[1]["tokens"]
        header = {}

        def lie(peer):
            """The header of a real producer with a right code of the prompt, and zeros for the bytes."""
            get = json.loads(peer.makefile("rb").readline())
            lines = [json.dumps({**header, "prompt": prompt_code(tokens, get["nonce"])}), json.dumps({"mac": "0" * 64})]
            peer.sendall(lines[0].encode() + b"\n" + bytes(header["num_bytes"]) + lines[1].encode() + b"\n")

        for secret in (None, SECRET):
            with self.subTest(secret=secret):
                liar = UnknownPeer(self, lie)
                pair = Pair(self, "TcpConnector", more_peers=[liar.port], secret=secret)
                header.update(self.header_of(pair, secret, tokens))
                body = {"prompt": tokens + tokens[:3], "max_tokens": 8, "temperature": 0}
                params = {"do_remote_prefill": True, "remote_host": "127.0.0.1", "remote_port": liar.port, "remote_request_id": "x"}
                status, answer = pair.end(body, params)
                if secret:
                    self.assertEqual(status, 503, answer)
                    self.assertIn("not its message", pair.decode.log_so_far())
                else:  # only the request that named the lying producer gets a wrong answer
                    self.assertEqual(status, 200, answer)
                    self.assertEqual(pair.decode.metric("reprise:kv_transfer_tokens_total"), len(tokens))
                    self.assertNotEqual(answer["choices"], self.alone.post("/v1/completions", body)[1]["choices"])
                for number in range(6):
                    body = {"prompt": f"{system}What is {number}?", "max_tokens": 8, "temperature": 0, "logprobs": 1}
                    self.assertEqual(pair.decode.post("/v1/completions", body)[1]["choices"],
                                     self.alone.post("/v1/completions", body)[1]["choices"])

    def test_the_secret_comes_from_a_file_or_a_variable_and_is_printed_nowhere(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "secret")
        with open(path, "w", encoding="ascii") as file:
            file.write(SECRET + "\n")
        options = transfer("TcpConnector", "kv_producer", kv_port=0, kv_connector_extra_config={"secret_file": path})
        server = serve_test.Server(*options, REPRISE_KV_TRANSFER_SECRET="another secret, which the file overrides")
        self.addCleanup(Pair.stop, server)
        self.assertNotIn("there is no secret", server.text())
        self.assertNotIn(SECRET, server.text())
        self.assertNotIn(SECRET, server.request("GET", "/server_info")[1].decode())
        body = {"prompt": "a", "kv_transfer_params": {"do_remote_decode": True}}
        params = server.post("/v1/completions", body)[1]["kv_transfer_params"]
        with socket.create_connection(("127.0.0.1", params["remote_port"])) as peer:
            get = {"op": "get", "id": params["remote_request_id"], "nonce": "0" * 32}
            peer.sendall(json.dumps(get).encode() + b"\n")
            self.assertIn(b"no secret", peer.makefile("rb").readline())
        done = subprocess.run([serve_test.BINARY, "serve", serve_test.MODEL, *options, "--dump-config"], capture_output=True,
                              text=True, timeout=serve_test.TIMEOUT, check=True)
        self.assertIn(path, done.stdout + done.stderr)
        self.assertNotIn(SECRET, done.stdout + done.stderr)
        silent = serve_test.Server(*transfer("TcpConnector", "kv_consumer"))
        self.addCleanup(Pair.stop, silent)
        self.assertIn("there is no secret", silent.text())

    def test_the_start_refuses_what_cannot_work(self):
        for config, what in (({"kv_connector": "TcpConnector", "kv_role": "kv_consumer", "kv_port": 0}, "HOST:PORT"),
                             ({"kv_connector": "TcpConnector", "kv_connector_extra_config": {"peers": ["a:b"]}}, "HOST:PORT"),
                             ({"kv_connector": "TcpConnector", "kv_connector_extra_config": {"peers": ["[::1"]}}, "HOST:PORT"),
                             ({"kv_connector": "TcpConnector", "kv_connector_extra_config": {"peers": ["a:70000"]}}, "HOST:PORT"),
                             ({"kv_connector": "TcpConnector", "kv_connector_extra_config": {"secret_file": "/none"}}, "/none"),
                             ({"kv_connector": "TcpConnector", "kv_connector_extra_config": {"secret_file": os.devnull}}, "empty"),
                             ({"kv_connector": "NixlConnector", "kv_role": "kv_both"}, "TcpConnector"),
                             ({"kv_role": "kv_producer"}, "kv_connector"),
                             ({"kv_connector": "TcpConnector", "kv_rolle": "kv_both"}, "kv_role"),
                             ({"kv_connector": "TcpConnector", "kv_ip": "203.0.113.7", "kv_port": 0}, "203.0.113.7"),
                             ({"kv_connector": "TcpConnector", "kv_buffer_device": "cuda"}, "kv_buffer_device")):
            done = subprocess.run([serve_test.BINARY, "serve", serve_test.MODEL, "--port", "0", "--kv-transfer-config",
                                   json.dumps(config)], capture_output=True, text=True, timeout=serve_test.TIMEOUT)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(what, done.stderr)

    def test_the_proxy_hides_the_pair_and_the_death_of_a_server(self):
        pair = Pair(self, "SharedMemoryConnector")
        proxy = subprocess.Popen([sys.executable, PROXY, "--port", "0", "--prefill", f"http://127.0.0.1:{pair.prefill.port}",
                                  "--decode", f"http://127.0.0.1:{pair.decode.port}"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(proxy.wait)
        self.addCleanup(proxy.kill)
        self.addCleanup(proxy.stdout.close)
        port = int(proxy.stdout.readline().rsplit(":", 1)[1])

        def post(body):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=serve_test.TIMEOUT)
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode()
            connection.close()
            return response.status, text

        body = {"prompt": PROMPTS[2], "max_tokens": 15, "temperature": 0}
        expected = self.alone.post("/v1/completions", body)[1]["choices"]
        status, text = post(body)
        self.assertEqual((status, json.loads(text)["choices"]), (200, expected))
        status, text = post({**body, "stream": True})
        told = "".join(json.loads(line[6:])["choices"][0]["text"] for line in text.splitlines()
                       if line.startswith("data: {"))
        self.assertEqual((status, told), (200, expected[0]["text"]))
        self.assertEqual(pair.decode.metric("reprise:kv_transfer_failures_total"), 0)
        self.assertGreater(pair.decode.metric("reprise:kv_transfer_tokens_total"), 0)
        pair.prefill.process.send_signal(signal.SIGKILL)
        pair.prefill.process.wait()
        status, text = post(body)  # the decoding server computes the prompt itself
        self.assertEqual((status, json.loads(text)["choices"]), (200, expected))
        pair.decode.process.send_signal(signal.SIGKILL)
        pair.decode.process.wait()
        status, text = post(body)
        self.assertEqual(status, 502, text)

    def test_nothing_is_left_when_servers_end(self):
        pair = Pair(self, "SharedMemoryConnector")
        self.expect_same(pair, {"prompt": PROMPTS[1], "max_tokens": 3, "temperature": 0})
        pair.begin({"prompt": PROMPTS[1]})  # nobody fetches it
        for server in (pair.prefill, pair.decode):
            with open(f"/proc/{server.process.pid}/maps", encoding="utf-8") as file:
                self.assertNotIn("/dev/shm", file.read())  # where memory with a name would be
        self.assertEqual(pair.prefill.stop(), 0)
        self.assertEqual(pair.decode.stop(), 0)


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL, PROXY = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
