#!/usr/bin/env python3
"""Measures the cost of /metrics: how long a scrape takes, and by how much scrapes slow steps down.

    metrics_cost.py REPRISE_BINARY MODEL_FOLDER [--rounds N]

Measures seconds with and without twenty scrapes. Then records a profile: the gaps between steps include the time in
which each step publishes its statistics. Uses only Python's standard library.
"""

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "integration"))
import metrics_test
import serve_test

SCRAPE_EVERY = 0.05


def quantile(values, fraction):
    return sorted(values)[min(len(values) - 1, int(len(values) * fraction))]


def step_seconds(server, scrape_times):
    """Mean time of a step over one second. If `scrape_times` is a list, scrapes and appends their times."""
    before = metrics_test.scrape(server)[1]
    end = time.monotonic() + 1
    while time.monotonic() < end:
        if scrape_times is not None:
            began = time.monotonic()
            server.request("GET", "/metrics")
            scrape_times.append(time.monotonic() - began)
        time.sleep(SCRAPE_EVERY)
    after = metrics_test.scrape(server)[1]
    grown = [after.value(name) - before.value(name) for name in ("reprise:step_seconds_total", "reprise:steps_total")]
    return grown[0] / grown[1]


def gaps_between_steps(server, folder):
    """Microseconds from the end of a step to the start of the next one."""
    server.request("POST", "/start_profile")
    time.sleep(3)
    server.request("POST", "/stop_profile")
    events = json.loads(next(Path(folder).iterdir()).read_text())["traceEvents"]
    steps = [event for event in events if event.get("cat") == "step"]
    return [after["ts"] - before["ts"] - before["dur"] for before, after in zip(steps, steps[1:])]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    serve_test.BINARY, serve_test.MODEL = options.binary, options.model
    with tempfile.TemporaryDirectory() as folder:
        server = serve_test.Server("--max-model-len", "512", "--profiler-config.torch_profiler_dir", folder)
        is_over = threading.Event()

        def work():
            while not is_over.is_set():
                server.post("/v1/completions", serve_test.stories(n=8, temperature=1, max_tokens=400, ignore_eos=True))

        clients = [threading.Thread(target=work) for _ in range(4)]
        try:
            for client in clients:
                client.start()
            server.wait_until(lambda: server.metric("vllm:num_requests_running") == 32)
            scrapes, ratios = [], []
            for _ in range(options.rounds):
                unwatched = step_seconds(server, None)
                ratios.append(step_seconds(server, scrapes) / unwatched)
            print(f"/metrics: {len(scrapes)} scrapes of {len(metrics_test.scrape(server)[0])} bytes, "
                  f"p50 {1e3 * quantile(scrapes, 0.5):.2f} ms, p99 {1e3 * quantile(scrapes, 0.99):.2f} ms")
            print(f"time of a step with scrapes to that without: median {statistics.median(ratios):.3f} of "
                  f"{len(ratios)} rounds ({min(ratios):.3f} to {max(ratios):.3f})")
            gaps = gaps_between_steps(server, folder)
            print(f"between steps: p50 {quantile(gaps, 0.5):.1f} us, p99 {quantile(gaps, 0.99):.1f} us of {len(gaps)}")
        finally:
            is_over.set()
            for client in clients:
                client.join()
            server.stop(9)


if __name__ == "__main__":
    main()
