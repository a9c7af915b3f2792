#!/usr/bin/env python3
"""What an attack costs another client: its first token and the time between its tokens, beside attackers and beside others.

    attack_cost.py REPRISE_BINARY MODEL_FOLDER [--rounds N] [--seconds S] [--clients N] [--only TEXT] [--json FILE]

One client, the victim, sends short streams one after the other. In each round it does so beside N ordinary clients and then
beside N clients of an attack that send about as many bytes and tokens. Everything shares the machine's processors, these
clients included. It prints a table: medians over the rounds, and how much memory the server has more when all have gone.
Uses only Python's standard library.
"""

import argparse
import json
import multiprocessing
import os
import re
import signal
import socket
import statistics
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "integration"))
import attacks
import serve_test

VICTIM_TOKENS = 60
SETTLE_SECONDS = 10  # a server without work gives memory back after a few seconds
# Specifications of clients that left may still be compiled, which takes long on a busy machine.
MOST_SECONDS_OF_WORK = 120


def percentile(values, fraction):
    return sorted(values)[min(len(values) - 1, int(len(values) * fraction))]


def rss_mib(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    return int(re.search(r"^VmRSS:\s+(\d+)", status, re.M).group(1)) / 1024


def wait_until_idle(server):
    """Until the server's work is done and it has given memory back."""
    end, used = time.monotonic() + MOST_SECONDS_OF_WORK, -1
    while time.monotonic() < end and used != (used := server_ticks(server)):
        time.sleep(2)
    time.sleep(SETTLE_SECONDS)


def server_ticks(server):
    fields = Path(f"/proc/{server.process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) // 10  # tenths of a second of processor time


class Crowd:
    """Clients that send one request after the other until they are told to stop. They are a process of their own, so
    that the victim waits for processors only, and not for Python."""

    def __init__(self, server, make, num_clients, waits):
        self.port, self.make, self.waits = server.port, make, waits
        context = multiprocessing.get_context("fork")
        self.number, self.is_over = context.Value("q", 0), context.Event()
        self.process = context.Process(target=self.run, args=(num_clients,))
        self.process.start()

    def run(self, num_clients):
        threads = [threading.Thread(target=self.send_all) for _ in range(num_clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def next_number(self):
        with self.number.get_lock():
            self.number.value += 1
            return self.number.value

    def send_all(self):
        held = []  # connections that are kept open
        while not self.is_over.is_set():
            try:
                self.send_one(held)
            except OSError:  # refused; attackers do not stop for that, but they do not spin either
                time.sleep(0.01)

    def send_one(self, held):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        connection.sendall(self.make(self.next_number()))
        connection.settimeout(0.5)
        if self.waits:
            held.append(connection)
            self.is_over.wait(0.2)
            return
        with connection:
            while not self.is_over.is_set():
                try:
                    if not connection.recv(65536):
                        return
                except TimeoutError:
                    pass

    def stop(self):
        self.is_over.set()
        self.process.join()
        return self.number.value


def victim(server, seconds):
    """Times of the first token, and between tokens, in milliseconds; with the number of streams that were refused."""
    firsts, gaps, num_refused = [], [], 0
    end = time.perf_counter() + seconds
    number = 0
    while time.perf_counter() < end:
        number += 1
        request = attacks.post(attacks.COMPLETIONS, {
            "prompt": f"Once upon a time there were {number} ", "max_tokens": VICTIM_TOKENS, "ignore_eos": True,
            "temperature": 0, "stream": True})
        last = time.perf_counter()
        with socket.create_connection(("127.0.0.1", server.port), timeout=120) as connection:
            connection.sendall(request)
            received, num_events = b"", 0
            while piece := connection.recv(65536):
                now = time.perf_counter()
                received += piece
                events = piece.count(b"data: {")
                if events:
                    (gaps if num_events else firsts).append(1000 * (now - last))
                    num_events += events
                    last = now
        if b" 200 " not in received[:20] or b"[DONE]" not in received:
            num_refused += 1
    return firsts, gaps, num_refused


def measure(server, make, options, waits):
    crowd = Crowd(server, make, options.clients, waits)
    try:
        time.sleep(0.5)  # the crowd is at work
        firsts, gaps, num_refused = victim(server, options.seconds)
    finally:
        num_sent = crowd.stop()
    server.wait_until(lambda: server.metric("vllm:num_requests_running") + server.metric("vllm:num_requests_waiting") == 0)
    return {"first_ms": statistics.median(firsts), "first_p99_ms": percentile(firsts, 0.99), "gap_p99_ms": percentile(gaps, 0.99),
            "streams": len(firsts), "refused": num_refused, "requests_of_crowd": num_sent}


def run_attack(attack, options):
    server = serve_test.Server("--disable-uvicorn-access-log", *attack.options)
    try:
        # The first rounds take memory that is never given back: pages of the allocator, compiled grammars.
        measure(server, attack.ordinary, options, attack.waits)
        rss_before = rss_mib(server)
        rounds = []
        for _ in range(options.rounds):
            rounds.append({"ordinary": measure(server, attack.ordinary, options, attack.waits),
                           "attack": measure(server, attack.request, options, attack.waits)})
        wait_until_idle(server)
        rss_after = rss_mib(server)
        # A server that was built with sanitizers reports leaks at its end at the latest, and then ends with another
        # status.
        status = server.stop(signal.SIGTERM)
        assert status == 0, (status, server.text())
        return {"attack": attack.name, "rounds": rounds, "rss_before_mib": rss_before, "rss_after_mib": rss_after}
    finally:
        if server.process.poll() is None:
            server.stop(signal.SIGTERM)


def median(result, side, what):
    return statistics.median(each[side][what] for each in result["rounds"])


def row(result):
    cells = [result["attack"]]
    for what in ("gap_p99_ms", "first_ms"):
        ordinary, attack = median(result, "ordinary", what), median(result, "attack", what)
        cells += [f"{ordinary:.1f}", f"{attack:.1f}", f"{attack / ordinary:.2f}"]
    cells += [f"{result['rss_after_mib'] - result['rss_before_mib']:+.0f}",
              f"{sum(each['attack']['refused'] for each in result['rounds'])}"]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--only", default="", help="attacks whose name contains this text")
    parser.add_argument("--json", help="a file for the figures of each round")
    options = parser.parse_args()
    serve_test.BINARY, serve_test.MODEL = options.binary, options.model
    print(f"{options.clients} clients, {options.rounds} rounds of {options.seconds} s, {os.cpu_count()} processors")
    print("| attack | gap p99, ordinary, ms | attack | ratio | first token, ordinary, ms | attack | ratio | RSS, MiB "
          "| streams refused |\n|---|---|---|---|---|---|---|---|---|", flush=True)
    results = []
    for attack in attacks.ATTACKS:
        if options.only in attack.name:
            results.append(run_attack(attack, options))
            print(row(results[-1]), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
