#!/usr/bin/env python3
"""`--kv-transfer-config`: one server computes prompts, another continues them. Arguments: BINARY MODEL PROXY.

The oracle is one server that does both. Usage: kv_transfer_test.py build/release/bin/reprise models/reprise-tiny
deploy/disaggregated/proxy.py
"""

import collections
import concurrent.futures
import http.client
import json
import signal
import subprocess
import sys
import unittest

import serve_test

PROXY = ""
PROMPTS = ["Once upon a time", "One day, a small dog " * 7, "The sun was warm. " * 20 + "Lily said", "A"]
DECODE_ONLY = ["-cc.cudagraph_mode", "FULL_DECODE_ONLY"]


def transfer(connector, role, **more):
    return ["--kv-transfer-config", json.dumps({"kv_connector": connector, "kv_role": role, "kv_port": 0, **more})]


class Pair:
    """A server that computes prompts, one that continues them, and the steps of a proxy between them."""

    def __init__(self, test, connector, decode_options=(), **decode_config):
        self.prefill = serve_test.Server(*transfer(connector, "kv_producer"))
        test.addCleanup(self.stop, self.prefill)
        self.decode = serve_test.Server(*transfer(connector, "kv_consumer", **decode_config), *DECODE_ONLY, *decode_options)
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
        text = pair.decode.request("GET", "/metrics")[1].decode()
        steps = collections.Counter()
        for line in text.splitlines():
            if line.startswith("reprise:cudagraph_dispatch_total"):
                steps[line.split('runtime_mode="')[1].split('"')[0]] += float(line.rsplit(" ", 1)[1])
        self.assertGreater(steps["FULL"], 30)
        self.assertEqual(steps.total(), steps["FULL"], steps)
        num_tokens = sum(answer["usage"]["prompt_tokens"] for answer in answers)
        # The beginnings of later prompts were in the cache already.
        sources = {name: pair.decode.metric("vllm:prompt_tokens_by_source_total", f'source="{name}"')
                   for name in ("external_kv_transfer", "local_cache_hit", "local_compute")}
        self.assertEqual(sum(sources.values()), num_tokens)
        self.assertEqual(sources["local_compute"], len(answers))
        self.assertGreater(sources["external_kv_transfer"], 100)
        self.assertEqual(pair.decode.metric("reprise:kv_transfer_tokens_total"), num_tokens)
        pair.prefill.wait_until(lambda: pair.prefill.metric("reprise:kv_transfer_waiting_bytes") == 0)

    def test_a_producer_that_is_gone_is_named_or_replaced(self):
        body = {"prompt": PROMPTS[1], "max_tokens": 10, "temperature": 0}
        expected = self.alone.post("/v1/completions", body)[1]["choices"]
        for policy in ("fail", "recompute"):
            pair = Pair(self, "TcpConnector", kv_load_failure_policy=policy)
            params = pair.begin(body)
            pair.prefill.process.kill()
            pair.prefill.process.wait()
            status, answer = pair.end(body, params)
            if policy == "fail":
                self.assertEqual(status, 503, answer)
                self.assertIn(str(params["remote_port"]), answer["error"]["message"])
            else:
                self.assertEqual((status, answer["choices"]), (200, expected))
            self.assertEqual(pair.decode.metric("reprise:kv_transfer_failures_total"), 1)
            # Nothing is held for the request that failed.
            self.assertEqual(pair.decode.post("/v1/completions", body)[1]["choices"], expected)

    def test_what_a_client_may_not_ask_is_refused(self):
        pair = Pair(self, "TcpConnector")
        good = pair.begin({"prompt": "a"})
        for params, what in (({**good, "remote_host": "169.254.169.254"}, "peers"),
                             ({**good, "remote_port": 0}, "remote_port"),
                             ({**good, "remote_request_id": ""}, "remote_request_id"),
                             ({"do_remote_decode": True}, "kv_consumer"), ([], "kv_transfer_params")):
            status, answer = pair.decode.post("/v1/completions", {"prompt": "a", "kv_transfer_params": params})
            self.assertEqual(status, 400, answer)
            self.assertIn(what, answer["error"]["message"])
        status, answer = pair.decode.post("/v1/completions", {"prompt": "b", "kv_transfer_params": good})
        self.assertEqual(status, 503, answer)
        self.assertIn("another prompt", answer["error"]["message"])
        status, answer = self.alone.post("/v1/completions", {"prompt": "a", "kv_transfer_params": good})
        self.assertEqual(status, 400)
        self.assertIn("--kv-transfer-config", answer["error"]["message"])

    def test_the_start_refuses_what_cannot_work(self):
        for config, what in (({"kv_connector": "NixlConnector", "kv_role": "kv_both"}, "TcpConnector"),
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
        status, text = post(body)  # the server that decodes computes the prompt too
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
