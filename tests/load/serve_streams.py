#!/usr/bin/env python3
"""Thousands of streams from one server, and streams beside clients that never read their answers.

    serve_streams.py REPRISE_BINARY MODEL_FOLDER [--full] [--streams N] [--stalled N] [--repeats N]

Fails unless every stream is complete. Without --full this is a smoke test that checks no times.
"""

import argparse
import asyncio
import json
import os
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

TIMEOUT = 600
NUM_READERS = 32  # the number of streams whose inter-token times are compared


class Server:
    def __init__(self, binary, model, streams):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [binary, "serve", model, "--port", "0", "--served-model-name", "tiny", "--max-waiting-requests",
             str(2 * streams), "--disable-uvicorn-access-log"],
            stdout=subprocess.DEVNULL, stderr=self.log,
        )
        deadline = time.monotonic() + 60
        while "startup complete" not in self.text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise SystemExit("the server did not start:\n" + self.text())
            time.sleep(0.05)
        self.port = int(re.search(r"127\.0\.0\.1:(\d+)\n", self.text()).group(1))

    def text(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode("utf-8", "replace")

    def status(self, name):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return int(re.search(rf"^{name}:\s+(\d+)", file.read(), re.M).group(1))

    def rss_mib(self, name="VmRSS"):
        return self.status(name) / 1024

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def request(max_tokens, number):
    body = json.dumps({
        "model": "tiny", "prompt": f"Once upon a time there were {number} ", "max_tokens": max_tokens,
        "ignore_eos": True, "temperature": 0, "stream": True,
    }).encode()
    return (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
            + str(len(body)).encode() + b"\r\n\r\n" + body)


async def stream(port, max_tokens, number):
    """The times at which tokens arrived; fails unless the stream is complete."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(max_tokens, number))
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.decode())
    times, is_done = [], False
    while True:
        size = int(await reader.readuntil(b"\r\n"), 16)
        data = await reader.readexactly(size + 2)
        if size == 0:
            break
        if b"[DONE]" in data:
            is_done = True
        elif b'"error"' in data:
            raise RuntimeError(data.decode())
        else:
            times.append(time.perf_counter())
    writer.close()
    if not is_done or len(times) < max_tokens // 2:  # one event may hold more than one token
        raise RuntimeError(f"stream {number} is not complete: {len(times)} events")
    return times


async def many(server, num_streams, max_tokens):
    peak = server.rss_mib()

    async def watch():
        nonlocal peak
        while True:
            peak = max(peak, server.rss_mib())
            await asyncio.sleep(0.05)

    before = server.rss_mib()
    watcher = asyncio.create_task(watch())
    begin = time.perf_counter()
    done = await asyncio.gather(*(stream(server.port, max_tokens, number) for number in range(num_streams)))
    seconds = time.perf_counter() - begin
    watcher.cancel()
    await asyncio.sleep(1)
    return {
        "streams": num_streams, "complete": len(done), "tokens_each": max_tokens, "seconds": round(seconds, 2),
        "tokens_per_second": round(num_streams * max_tokens / seconds), "rss_before_mib": round(before, 1),
        "rss_peak_mib": round(peak, 1), "rss_after_mib": round(server.rss_mib(), 1),
        "threads": server.status("Threads"),
    }


async def beside(server, num_others, others_read, max_tokens):
    """The 99th percentile of the time between tokens, in milliseconds, of streams that run beside other streams."""
    stalled, reading = [], []
    for number in range(num_others):
        if others_read:
            reading.append(asyncio.create_task(stream(server.port, max_tokens, 10000 + number)))
            continue
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(request(max_tokens, 10000 + number))
        stalled.append(connection)
    await asyncio.sleep(0.2)
    done = await asyncio.gather(*(stream(server.port, max_tokens // 2, number) for number in range(NUM_READERS)))
    gaps = sorted(later - earlier for times in done for earlier, later in zip(times, times[1:]))
    await asyncio.gather(*reading)
    for connection in stalled:
        connection.close()
    await asyncio.sleep(0.3)  # gives the server time to abort the closed streams
    return 1000 * gaps[int(len(gaps) * 0.99)]


async def run(server, options):
    streams = options.streams or (2000 if options.full else 200)
    stalled = options.stalled or (64 if options.full else 8)
    print(json.dumps(await many(server, streams, 64)), flush=True)
    print(json.dumps(await many(server, streams, 64)), flush=True)  # what the first left, and no more
    pairs = []
    for _ in range(options.repeats or (7 if options.full else 1)):
        pairs.append((await beside(server, stalled, True, 600), await beside(server, stalled, False, 600)))
    print(json.dumps({
        "stalled": stalled, "readers": NUM_READERS,
        "p99_ms_others_read": [round(pair[0], 2) for pair in pairs],
        "p99_ms_others_stall": [round(pair[1], 2) for pair in pairs],
        "median_ratio": round(statistics.median(pair[1] / pair[0] for pair in pairs), 3),
        "rss_mib": round(server.rss_mib(), 1),
    }))
    await stream(server.port, 4, 0)  # the server still answers


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--streams", type=int)
    parser.add_argument("--stalled", type=int)
    parser.add_argument("--repeats", type=int)
    options = parser.parse_args()
    server = Server(options.binary, options.model, options.streams or 2000)
    # The server has raised its own limit on open files; this client needs one too.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))
    try:
        asyncio.run(asyncio.wait_for(run(server, options), TIMEOUT))
    finally:
        code = server.stop()
    if code != 0:
        sys.exit(f"the server ended with {code}:\n{server.text()}")


if __name__ == "__main__":
    main()
