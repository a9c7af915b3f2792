#!/usr/bin/env python3
"""The Grafana dashboard: its form, and every query of it asked of a Prometheus that scrapes a server at work.

    dashboard_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER

Uses Python's standard library, and prometheus where it is installed.
"""

import http.client
import itertools
import json
import math
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
from pathlib import Path

import serve_test

SOURCE = None
GRID_WIDTH = 24
# Kinds of panels that every Grafana has.
PANEL_TYPES = {"row", "timeseries", "stat", "gauge", "bargauge", "barchart", "table", "piechart", "heatmap", "text"}
# The values that Grafana inserts for these variables if a query is made every second.
VARIABLES = {"$__rate_interval": "5s", "$model_name": ".*"}


def read_dashboard():
    return json.loads((SOURCE / "deploy/grafana/reprise.json").read_text(encoding="utf-8"))


def overlap(a, b):
    return (a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and
            a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"])


class Form(unittest.TestCase):
    def setUp(self):
        self.dashboard = read_dashboard()
        self.panels = self.dashboard["panels"]
        self.queries = [(panel, target) for panel in self.panels for target in panel.get("targets", [])]

    def test_it_can_be_imported(self):
        self.assertTrue(self.dashboard["title"])
        self.assertRegex(self.dashboard["uid"], r"^[A-Za-z0-9_-]{1,40}$")
        self.assertIsInstance(self.dashboard["schemaVersion"], int)
        self.assertNotIn("id", self.dashboard)  # that of another Grafana
        for each in self.dashboard["__inputs"]:
            self.assertLessEqual({"name", "label", "type", "pluginId", "pluginName"}, each.keys())

    def test_panels_have_a_place_of_their_own(self):
        for panel in self.panels:
            self.assertIn(panel["type"], PANEL_TYPES)
            self.assertTrue(panel["title"])
            place = panel["gridPos"]
            self.assertTrue(all(isinstance(place[side], int) and place[side] >= 0 for side in "xywh"), panel["title"])
            self.assertLessEqual(place["x"] + place["w"], GRID_WIDTH, panel["title"])
        self.assertEqual(len({panel["id"] for panel in self.panels}), len(self.panels))
        for one, other in itertools.combinations(self.panels, 2):
            self.assertFalse(overlap(one["gridPos"], other["gridPos"]), (one["title"], other["title"]))

    def test_queries_name_a_source_and_variables_that_exist(self):
        inputs = {"${%s}" % each["name"] for each in self.dashboard["__inputs"]}
        variables = {"$" + each["name"] for each in self.dashboard["templating"]["list"]}
        self.assertEqual(variables | {"$__rate_interval"}, set(VARIABLES))
        for panel, target in self.queries:
            source = target.get("datasource") or panel["datasource"]
            self.assertEqual(source["type"], "prometheus")
            self.assertIn(source["uid"], inputs)
            self.assertLessEqual(set(re.findall(r"\$\w+", target["expr"])), set(VARIABLES))
        for panel in self.panels:
            ids = [target["refId"] for target in panel.get("targets", [])]
            self.assertEqual(len(set(ids)), len(ids), panel["title"])


class Prometheus:
    """A Prometheus that scrapes one server every second."""

    def __init__(self, folder, target_port):
        config = Path(folder) / "prometheus.yml"
        config.write_text("global: {scrape_interval: 1s}\n"
                          "scrape_configs: [{job_name: reprise, static_configs: "
                          f"[{{targets: ['127.0.0.1:{target_port}']}}]}}]\n")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = Path(folder) / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address=127.0.0.1:{self.port}"], stdout=log, stderr=log)

    def get(self, path, **parameters):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=serve_test.TIMEOUT)
        try:
            connection.request("GET", f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        assert answer["status"] == "success", (parameters, answer)
        return answer["data"]

    def query(self, text):
        return [(each["metric"], float(each["value"][1])) for each in self.get("query", query=text)["result"]]

    def num_scrapes(self):
        try:
            return sum(value for _, value in self.query("count_over_time(up[1h])"))
        except (OSError, http.client.HTTPException, ValueError):
            assert self.process.poll() is None, self.log.read_text()
            return 0

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(serve_test.TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@unittest.skipUnless(shutil.which("prometheus"), "prometheus is not installed")
class Queries(unittest.TestCase):
    def test_every_query_has_an_answer(self):
        server = serve_test.Server("--max-model-len", "256")
        self.addCleanup(server.stop)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        prometheus = Prometheus(folder.name, server.port)
        self.addCleanup(prometheus.stop)
        is_over = threading.Event()

        def work():
            while not is_over.is_set():
                server.post("/v1/completions", serve_test.stories(n=3, temperature=1, max_tokens=30))

        worker = threading.Thread(target=work)
        worker.start()
        try:
            deadline = time.monotonic() + serve_test.TIMEOUT
            while prometheus.num_scrapes() < 6:
                self.assertLess(time.monotonic(), deadline, prometheus.log.read_text())
                time.sleep(0.2)
            for panel in read_dashboard()["panels"]:
                for target in panel.get("targets", []):
                    self.check(prometheus, panel["title"], target["expr"])
        finally:
            is_over.set()
            worker.join()
        for variable in read_dashboard()["templating"]["list"]:
            metric, label = re.fullmatch(r"label_values\((\S+), (\w+)\)", variable["query"]).groups()
            self.assertEqual(prometheus.get(f"label/{label}/values", **{"match[]": metric}), [serve_test.NAME])

    def check(self, prometheus, title, expression):
        for variable, value in VARIABLES.items():
            expression = expression.replace(variable, value)
        found = prometheus.query(expression)
        self.assertTrue(found, (title, expression))
        for labels, value in found:
            self.assertTrue(math.isfinite(value) and value >= 0, (title, expression, labels, value))


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL, SOURCE = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
