"""Many requests at times of their own from one thread: the client of the traces of serve_storm.py.

One event loop and no library for HTTP, so that a long run spends its time in the server. It reads what this server sends
(a status line, a body with a length or in chunks, the end of the connection) and fails at everything else.
"""

import asyncio
import json

DEADLINE = 1800  # seconds for one group of requests, on a machine that may give the server nearly no time


def http_bytes(method, path, body=b""):
    return (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def read_chunks(body):
    """The bytes that the chunks hold; fails unless the last chunk ends the body."""
    pieces, at = [], 0
    while True:
        line_end = body.index(b"\r\n", at)
        size, begin = int(body[at:line_end], 16), line_end + 2
        assert body[begin + size:begin + size + 2] == b"\r\n", (size, body[at:])
        at = begin + size + 2
        if size == 0:
            assert at == len(body), body[at:]
            return b"".join(pieces)
        pieces.append(body[begin:begin + size])


def read_response(received):
    """The status and the body of a whole response."""
    head, body = received.split(b"\r\n\r\n", 1)
    lines = head.lower().split(b"\r\n")
    assert lines[0].startswith(b"http/1.1 "), lines[0]
    if b"transfer-encoding: chunked" in lines:
        body = read_chunks(body)
    else:
        length = next(int(line[len(b"content-length:"):]) for line in lines if line.startswith(b"content-length:"))
        assert length == len(body), (length, len(body))
    return int(lines[0][9:12]), body


class Exchange(asyncio.Protocol):
    """One request on a connection of its own. `done`: the whole response, or None when the client went."""

    def __init__(self, request, goes_after):
        self.request, self.goes_after = request, goes_after  # goes_after: events of a stream; None: stays
        self.received, self.transport = bytearray(), None
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data):
        self.received += data
        if self.goes_after is not None and self.received.count(b"data: {") > self.goes_after:
            self.transport.abort()
            self.done.set_result(None)
            self.goes_after = None

    def connection_lost(self, error):
        if self.done.done():
            return
        if error:
            self.done.set_exception(error)
        else:
            self.done.set_result(bytes(self.received))


async def exchange(port, request, goes_after=None):
    """The status and the body, or None for a client that went."""
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(lambda: Exchange(request, goes_after), "127.0.0.1", port)
    received = await protocol.done
    return None if received is None else read_response(received)


async def call(port, method, path):
    status, _ = await exchange(port, http_bytes(method, path))
    return status


async def ask(port, request):
    """The status and the events of a completion (one for an answer that is not a stream), or None for a client that went."""
    await asyncio.sleep(request.delay)
    response = await exchange(port, http_bytes("POST", "/v1/completions", json.dumps(request.body).encode()),
                              request.goes_after)
    if response is None:
        return None
    status, body = response
    if status != 200 or not request.body["stream"]:
        return status, [json.loads(body)]
    parts = body.split(b"\n\n")
    assert parts[-2:] == [b"data: [DONE]", b""] and all(part.startswith(b"data: {") for part in parts[:-2]), parts
    return status, json.loads(b"[" + b",".join(part[6:] for part in parts[:-2]) + b"]")


async def operate(port, chance, is_over):
    """What an operator does meanwhile. Requests wait for the server to wake up."""
    while not is_over.is_set():
        await asyncio.sleep(chance.uniform(0, 0.05))
        kind = chance.random()
        if kind < 0.5:
            assert await call(port, "POST", f"/sleep?mode=wait&level={chance.randint(0, 2)}") == 200
            assert await call(port, "POST", "/wake_up") == 200
        elif kind < 0.8:
            await call(port, "POST", "/reset_prefix_cache")  # refused while requests run
        else:
            assert await call(port, "GET", "/metrics") == 200


async def ask_all(port, requests, operators):
    is_over = asyncio.Event()
    beside = [asyncio.create_task(operate(port, chance, is_over)) for chance in operators]
    try:
        return await asyncio.gather(*(ask(port, request) for request in requests))
    finally:
        is_over.set()
        await asyncio.gather(*beside)


def play(port, requests, operators):
    """What ask() says about each request; `operators` holds a source of chance for each operator."""
    return asyncio.run(asyncio.wait_for(ask_all(port, requests, operators), DEADLINE))
