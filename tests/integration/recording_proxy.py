"""Stands between a client and a server and writes down when what passed: a second pair of eyes.

Knows nothing of the client under test. The definitions are those of `vllm bench serve`, computed
here from this side's timestamps alone.
"""

import asyncio
import json
import math
import statistics
import threading
import time


class Exchange:
    """One streamed answer: when it was asked for, when each event was handed on, what it said."""

    def __init__(self, start):
        self.start = start
        self.times = []
        self.completion_tokens = None

    @property
    def latency(self):
        return self.times[-1] - self.start


class RecordingProxy:
    """`first_delay` and `gap` (seconds) slow a stream down, so that a machine's jitter is small
    against what is measured."""

    def __init__(self, port, first_delay=0.0, gap=0.0):
        self.upstream, self.first_delay, self.gap = port, first_delay, gap
        self.exchanges, self.last_event = [], 0.0
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        future = asyncio.run_coroutine_threadsafe(asyncio.start_server(self.serve, "127.0.0.1", 0), self.loop)
        self.server = future.result(10)
        self.port = self.server.sockets[0].getsockname()[1]

    def close(self):
        self.loop.call_soon_threadsafe(self.server.close)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)

    async def serve(self, reader, writer):
        try:
            while True:
                accepted = time.perf_counter()
                head = await reader.readuntil(b"\r\n\r\n")
                # The first request of a new connection was sent when the connection was opened.
                start = accepted if not getattr(writer, "was_used", False) else time.perf_counter()
                writer.was_used = True
                length = 0
                for line in head.split(b"\r\n"):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                body = await reader.readexactly(length)
                await self.relay(head, body, writer, start)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def relay(self, head, body, writer, start):
        reader, upstream = await asyncio.open_connection("127.0.0.1", self.upstream)
        upstream.write(head + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        if b"chunked" not in answer.lower():
            length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            writer.write(await reader.readexactly(length))
            upstream.close()
            return
        exchange, buffer, due = Exchange(start), b"", start + self.first_delay
        while size := int(await reader.readline(), 16):
            buffer += await reader.readexactly(size)
            await reader.readline()
            while b"\n\n" in buffer:
                event, buffer = buffer.split(b"\n\n", 1)
                event += b"\n\n"
                is_choice = self.is_choice(event, exchange)
                if is_choice:
                    await asyncio.sleep(max(0.0, due - time.perf_counter()))
                writer.write(b"%x\r\n%s\r\n" % (len(event), event))
                await writer.drain()
                self.last_event = time.perf_counter()
                if is_choice:
                    exchange.times.append(self.last_event)
                    due = self.last_event + self.gap
        writer.write(b"0\r\n\r\n")
        upstream.close()
        self.exchanges.append(exchange)

    @staticmethod
    def is_choice(event, exchange):
        text = event.decode().strip().removeprefix("data: ")
        if text == "[DONE]":
            return False
        chunk = json.loads(text)
        if chunk.get("usage"):
            exchange.completion_tokens = chunk["usage"]["completion_tokens"]
        return bool(chunk.get("choices"))

    def figures(self, percents):
        """What the run was, as seen from here; milliseconds and per second."""
        tpots = [(e.latency - (e.times[0] - e.start)) / (e.completion_tokens - 1)
                 for e in self.exchanges if e.completion_tokens > 1]
        gaps = [b - a for e in self.exchanges for a, b in zip(e.times, e.times[1:])]
        series = {"ttft": [e.times[0] - e.start for e in self.exchanges], "tpot": tpots, "itl": gaps,
                  "e2el": [e.latency for e in self.exchanges]}
        found = {}
        for name, values in series.items():
            found.update(distribution(name, values, percents))
        begin = min(e.start for e in self.exchanges)
        duration = self.last_event - begin
        tokens = sum(e.completion_tokens for e in self.exchanges)
        buckets = {}
        for e in self.exchanges:
            for moment in e.times:
                second = int(moment - begin)
                buckets[second] = buckets.get(second, 0) + 1
        found.update(duration=duration, completed=len(self.exchanges), total_output_tokens=tokens,
                     request_throughput=len(self.exchanges) / duration, output_throughput=tokens / duration,
                     max_output_tokens_per_s=max(buckets.values()))
        return found


def percentile(values, percent):
    """Linear interpolation between ranks, numpy's default."""
    ordered = sorted(values)
    rank = percent / 100 * (len(ordered) - 1)
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def distribution(name, seconds, percents):
    found = {f"mean_{name}_ms": statistics.fmean(seconds) * 1e3, f"median_{name}_ms": statistics.median(seconds) * 1e3,
             f"std_{name}_ms": statistics.pstdev(seconds) * 1e3}
    for percent in percents:
        word = str(int(percent)) if percent == int(percent) else str(percent)
        found[f"p{word}_{name}_ms"] = percentile(seconds, percent) * 1e3
    return found
