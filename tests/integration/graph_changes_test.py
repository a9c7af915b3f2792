#!/usr/bin/env python3
"""/v1/graphs, and what SIGHUP does with a configuration file: graphs change while requests are answered.

    graph_changes_test.py REPRISE_BINARY MODEL_FOLDER

Uses only Python's standard library.
"""

import json
import signal
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import serve_test
from serve_test import stories

KEY = "secret"


class Clients(threading.Thread):
    """Asks one request after the other until it is told to end."""

    def __init__(self, server, number):
        super().__init__()
        self.server, self.number = server, number
        self.texts, self.problems, self.is_over = set(), [], False
        self.start()

    def run(self):
        while not self.is_over:
            status, answer = self.server.post("/v1/completions", stories(max_tokens=30, seed=self.number))
            if status != 200 or answer["choices"][0]["finish_reason"] not in ("length", "stop"):
                self.problems.append(answer)
            else:
                self.texts.add(answer["choices"][0]["text"])


class GraphChanges(unittest.TestCase):
    def start(self, *options, **environment):
        server = serve_test.Server(*options, **environment)
        self.addCleanup(server.stop, 9)
        return server

    def graphs(self, server, **headers):
        response, text = server.request("GET", "/v1/graphs", headers=headers)
        self.assertEqual(response.status, 200, text)
        return json.loads(text)

    def change(self, server, expected=200, **fields):
        status, answer = server.post("/v1/graphs", fields)
        self.assertEqual(status, expected, answer)
        return answer

    def wait_until_done(self, server):
        server.wait_until(lambda: (self.graphs(server)["last_change"] or {"state": "done"})["state"] == "done")
        return self.graphs(server)

    def test_changes_under_load_change_no_answer(self):
        server = self.start("--dev")
        _, answer = server.post("/v1/completions", stories(max_tokens=30))
        expected = {answer["choices"][0]["text"]}
        clients = [Clients(server, number) for number in range(4)]
        for mode in ("FULL", "NONE", "PIECEWISE", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"):
            self.assertEqual(self.change(server, cudagraph_mode=mode)["cudagraph_mode"], mode)
            self.wait_until_done(server)
        self.change(server, shadow_check_rate=0.5)
        self.wait_until_done(server)
        for client in clients:
            client.is_over = True
        for client in clients:
            client.join()
            self.assertEqual(client.problems, [])
            self.assertEqual(client.texts, expected)
        self.assertEqual(server.metric("reprise:cudagraph_changes_total", 'outcome="applied"'), 6)
        self.assertEqual(server.metric("reprise:cudagraph_keys", 'state="planned"'), 0)
        self.assertEqual(server.metric("reprise:cudagraph_shadow_check_rate"), 0.5)
        self.assertEqual(server.metric("reprise:cudagraph_plan_info", 'cudagraph_mode="FULL_AND_PIECEWISE"'), 1)
        captures = server.metric("reprise:cudagraph_change_captures_total", 'outcome="captured"')
        self.assertGreater(captures, 10)
        self.assertEqual(server.metric("reprise:cudagraph_change_captures_total", 'outcome="failed"'), 0)
        self.assertGreater(server.metric("reprise:cudagraph_change_capture_seconds_total"), 0)
        log = server.log_so_far()
        self.assertIn("graphs: change 1 began: cudagraph_mode FULL, ", log)
        self.assertIn("graphs: change 6 done: ", log)

    def test_a_graph_is_taken_out_and_released_by_its_name(self):
        server = self.start("--dev")
        key = self.graphs(server)["keys"][-1]["key"]
        captured = server.metric("reprise:cudagraph_captured", 'mode="FULL"')
        self.assertEqual(self.change(server, quarantine=[key])["given_back"], 1)
        self.assertEqual([k for k in self.graphs(server)["keys"] if k["state"] == "quarantined"],
                         [{"key": key, "state": "quarantined", "reason": "quarantined by request"}])
        self.assertEqual(server.metric("reprise:cudagraph_captured", 'mode="FULL"'), captured - 1)
        self.assertEqual(server.metric("reprise:cudagraph_quarantined", 'model="main"'), 1)
        answer = self.change(server, release=[key])
        self.assertEqual(answer["captures"]["keys"], [key])
        self.wait_until_done(server)
        self.assertEqual(server.metric("reprise:cudagraph_captured", 'mode="FULL"'), captured)
        with self.assertRaises(AssertionError):
            server.metric("reprise:cudagraph_quarantined", 'model="main"')

    def test_refusals_name_the_field_and_change_nothing(self):
        server = self.start("--dev")
        before = self.graphs(server)
        for fields, part in (
            ({"splitting_ops": []}, "splitting_ops: cannot be changed while the engine runs; restart"),
            ({"attention_backend": "REFERENCE"}, "attention_backend: cannot be changed"),
            ({"cudagraph_mode": "ALWAYS"}, "FULL_AND_PIECEWISE"),
            ({"cudagraph_capture_sizes": [0]}, "cudagraph_capture_sizes"),
            ({"quarantine": ["FULL:99999"]}, "this engine has no graph"),
            ({"modes": "FULL"}, "modes: is no field"),
        ):
            answer = self.change(server, 400, **fields)
            self.assertIn(part, answer["error"]["message"])
        after = self.graphs(server)
        for name in ("keys", "cudagraph_mode", "since", "changes", "graph_bytes"):
            self.assertEqual(after[name], before[name])
        self.assertEqual(server.request("POST", "/sleep?level=0")[0].status, 200)
        self.assertIn("sleeps", self.change(server, 409, cudagraph_mode="NONE")["error"]["message"])
        self.assertEqual(server.metric("reprise:cudagraph_changes_total", 'outcome="applied"'), 0)
        self.assertGreater(server.metric("reprise:cudagraph_changes_total", 'outcome="refused"'), 1)

    def test_only_development_mode_changes_and_keys_guard_both(self):
        server = self.start("--api-key", KEY)
        self.assertEqual(server.request("GET", "/v1/graphs")[0].status, 401)
        bearer = {"Authorization": f"Bearer {KEY}"}
        self.assertEqual(self.graphs(server, **bearer)["cudagraph_mode"], "FULL_AND_PIECEWISE")
        self.assertEqual(server.request("POST", "/v1/graphs", {}, bearer)[0].status, 405)
        server = self.start("--api-key", KEY, VLLM_SERVER_DEV_MODE="1")
        self.assertEqual(server.request("POST", "/v1/graphs", {})[0].status, 401)
        self.assertEqual(server.request("POST", "/v1/graphs", {"cudagraph_mode": "NONE"}, bearer)[0].status, 200)
        self.assertEqual(self.graphs(server, **bearer)["keys"], [])

    def test_a_hang_up_reads_the_configuration_file_again(self):
        folder = Path(tempfile.mkdtemp())
        config = folder / "serve.yaml"
        config.write_text("compilation-config: {cudagraph_mode: FULL}\n")
        server = self.start("--config", str(config))
        self.assertEqual(self.graphs(server)["cudagraph_mode"], "FULL")

        def hang_up(text, line):
            config.write_text(text)
            before = server.log_so_far().count("configuration")
            server.process.send_signal(signal.SIGHUP)
            server.wait_until(lambda: server.text().count(line) and server.text().count("configuration") > before)
            return self.wait_until_done(server)

        state = hang_up("compilation-config: {cudagraph_mode: PIECEWISE}\nshadow-check-rate: 0.25\n", "now in force")
        self.assertEqual((state["cudagraph_mode"], state["shadow_check_rate"]), ("PIECEWISE", 0.25))
        state = hang_up("compilation-config: {cudagraph_mode: [\n", "changes nothing: ")
        self.assertEqual(state["cudagraph_mode"], "PIECEWISE")
        self.assertRegex(server.text(), r"serve\.yaml:\d+: not YAML")
        state = hang_up("compilation-config: {cudagraph_mode: NONE, mode: 0}\nblock-size: 32\n",
                        'now in force: {"cudagraph_mode":"NONE"')
        self.assertIn("need a restart: --block-size, --compilation-config.mode", server.text())
        # The other keys of the same file take effect.
        self.assertEqual((state["cudagraph_mode"], state["shadow_check_rate"]), ("NONE", 0))
        state = hang_up("", "now in force: ")
        self.assertEqual(state["cudagraph_mode"], "FULL_AND_PIECEWISE")
        hang_up("", "nothing that can change now is different")
        self.assertIsNone(server.process.poll())
        self.assertEqual(server.request("GET", "/health")[0].status, 200)

    def test_a_hang_up_ends_a_server_without_a_configuration_file(self):
        server = self.start()
        self.assertEqual(server.stop(signal.SIGHUP), 0)


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
