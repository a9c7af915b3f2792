#!/usr/bin/env python3
"""`--kv-events-config`: what a router hears over ZeroMQ from `reprise serve`, read with pyzmq and msgspec.

    kv_events_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER

The classes below declare the messages as vLLM 0.32 does (vllm/distributed/kv_events.py), so msgspec refuses what a subscriber
of vLLM would refuse. The oracle for the content: a router that applies the events predicts for each new prompt how many of its
tokens are cached, and the server must report exactly this number.
"""

import ctypes
import http.client
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

BINARY, MODEL, SOURCE = Path(sys.argv[1]).resolve(), sys.argv[2], Path(sys.argv[3]).resolve()
VENV = SOURCE / "build/venv/bin/python"
if VENV.exists() and Path(sys.executable) != VENV:
    os.execv(VENV, [str(VENV), "-B", *sys.argv])
try:
    import msgspec
    import zmq
except ImportError:
    print("skipped: without pyzmq and msgspec (python/requirements-test.txt) there is no subscriber")
    sys.exit(77)

try:
    ctypes.CDLL("libzmq.so.5")
except OSError:
    print("skipped: without libzmq (Debian: libzmq5) the server has no events")
    sys.exit(77)

LIMIT = 240  # seconds, for things that take a moment on an idle machine
BLOCK = 16
END = 2**64 - 1


class EventBatch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    ts: float
    events: list
    data_parallel_rank: int | None = None


class Event(msgspec.Struct, omit_defaults=True, gc=False, tag=True):
    pass


class BlockStored(Event):
    block_hashes: list[bytes | int]
    parent_block_hash: bytes | int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: list[tuple | None] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None
    locality: str | None = None
    ownership: str | None = None
    session_id: str | None = None


class BlockRemoved(Event):
    block_hashes: list[bytes | int]
    medium: str | None
    group_idx: int | None = None


class AllBlocksCleared(Event):
    pass


class Batch(EventBatch):
    events: list[BlockStored | BlockRemoved | AllBlocksCleared]


class OldEvent(msgspec.Struct, array_like=True, omit_defaults=True, gc=False, tag=True):
    pass


class OldStored(OldEvent, tag="BlockStored"):
    block_hashes: list[bytes | int]
    parent_block_hash: bytes | int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None


class OldRemoved(OldEvent, tag="BlockRemoved"):
    block_hashes: list[bytes | int]


class OldCleared(OldEvent, tag="AllBlocksCleared"):
    pass


class OldBatch(EventBatch):
    events: list[OldStored | OldRemoved | OldCleared]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, config, *options, **environment):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [BINARY, "serve", MODEL, "--port", "0", "--served-model-name", "tiny", "--kv-events-config", json.dumps(config),
             "--enable-prompt-tokens-details", "--dev", *options],
            stdout=subprocess.DEVNULL, stderr=self.log, env={**os.environ, **environment})
        deadline = time.monotonic() + LIMIT
        while "Application startup complete." not in self.text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("the server did not start:\n" + self.text())
            time.sleep(0.02)
        self.port = int(re.search(r"server on \S+:(\d+)\n", self.text()).group(1))

    def text(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode()

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        try:
            connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def complete(self, tokens, **fields):
        body = {"model": "tiny", "prompt": tokens, "max_tokens": 1, "temperature": 0, **fields}
        status, text = self.request("POST", "/v1/completions", body)
        assert status == 200, text
        return json.loads(text)

    def metric(self, name):
        return float(re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", self.request("GET", "/metrics")[1], re.M).group(1))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        status = self.process.wait(LIMIT)
        self.log.close()
        assert status == 0, status


class Subscriber:
    """Reads all messages on a thread of its own and applies them."""

    def __init__(self, endpoint, topic="", kind=Batch):
        self.batches, self.numbers, self.topics = [], [], []
        self.known = {}  # hash -> the tokens of its prefix
        self.history = {}
        self.changed = threading.Condition()
        self.decoder = msgspec.msgpack.Decoder(kind)
        self.socket = zmq.Context.instance().socket(zmq.SUB)
        self.socket.setsockopt_string(zmq.SUBSCRIBE, topic)
        self.socket.connect(endpoint)
        self.is_over = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.is_over:
            if not self.socket.poll(50):
                continue
            topic, number, payload = self.socket.recv_multipart()
            assert len(number) == 8
            with self.changed:
                self.topics.append(topic)
                self.numbers.append(int.from_bytes(number, "big"))
                self.batches.append(self.decoder.decode(payload))
                for event in self.batches[-1].events:
                    self.apply(event)
                self.changed.notify_all()

    def apply(self, event):
        if isinstance(event, BlockStored | OldStored):
            assert len(event.token_ids) == len(event.block_hashes) * event.block_size
            prefix = self.history[event.parent_block_hash] if event.parent_block_hash is not None else ()
            for i, block in enumerate(event.block_hashes):
                prefix += tuple(event.token_ids[i * event.block_size:(i + 1) * event.block_size])
                assert block not in self.known
                self.known[block] = self.history[block] = prefix
        elif isinstance(event, BlockRemoved | OldRemoved):
            for block in event.block_hashes:
                del self.known[block]
        else:
            self.known.clear()

    def wait_for(self, condition):
        with self.changed:
            assert self.changed.wait_for(condition, LIMIT), f"{len(self.batches)} batches: {self.numbers[-3:]}"

    def cached_tokens(self, prompt):
        """What the cache must have of a prompt; its last token is always computed."""
        prefixes = set(self.known.values())
        count = 0
        while (count + 1) * BLOCK < len(prompt) and tuple(prompt[:(count + 1) * BLOCK]) in prefixes:
            count += 1
        return count * BLOCK

    def end(self):
        self.is_over = True
        self.thread.join(LIMIT)
        self.socket.close(0)


def config(port, **fields):
    return {"enable_kv_cache_events": True, "endpoint": f"tcp://*:{port}", **fields}


class KvEvents(unittest.TestCase):
    def subscribe(self, server, port, **arguments):
        """A subscriber that hears everything from now on; PUB sockets tell nobody when a subscription has arrived."""
        found = Subscriber(f"tcp://127.0.0.1:{port}", **arguments)
        self.addCleanup(found.end)
        deadline = time.monotonic() + LIMIT
        while not found.batches and time.monotonic() < deadline:
            server.request("POST", "/reset_prefix_cache")
            time.sleep(0.05)
        # When this reset has arrived, all earlier resets have arrived too.
        sent = server.metric("reprise:kv_event_payloads_sent_total")
        found.wait_for(lambda: found.numbers and found.numbers[-1] >= sent - 1)
        return found

    def wait_until_heard(self, server, found):
        """The answer of a request may come before its events."""
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            sent = server.metric("reprise:kv_event_payloads_sent_total")
            found.wait_for(lambda: found.numbers[-1] >= sent - 1)
            time.sleep(0.02)
            if server.metric("reprise:kv_event_payloads_sent_total") == sent:
                return

    def load(self, server, found, seed, rounds):
        """Random prompts; before each, the router says how much of it is cached. Returns the number of hits."""
        dice = random.Random(seed)
        stems = [[dice.randrange(3, 200) for _ in range(64)] for _ in range(4)]
        hits = 0
        for i in range(rounds):
            prompt = stems[dice.randrange(4)][:dice.randrange(1, 65)] + [dice.randrange(3, 200) for _ in range(dice.randrange(1, 70))]
            if dice.random() < 0.3:
                prompt = prompt[:dice.randrange(1, len(prompt) + 1)]
            predicted = found.cached_tokens(prompt)
            answer = server.complete(prompt, max_tokens=dice.randrange(1, 20), ignore_eos=True)
            details = answer["usage"].get("prompt_tokens_details") or {}
            self.assertEqual(predicted, details.get("cached_tokens", 0))
            hits += predicted > 0
            if i % 20 == 13:
                self.assertEqual(200, server.request("POST", "/reset_prefix_cache")[0])
            self.wait_until_heard(server, found)
        return hits

    def test_a_router_predicts_the_cached_tokens_of_every_prompt(self):
        for name, kind, options in (("map", Batch, []), ("array", OldBatch, ["--async-scheduling"])):
            port = free_port()
            # 31 blocks: most blocks are evicted within a few requests.
            with self.subTest(encoding=name), \
                    Server(config(port, topic="kv@pod@tiny", encoding=name), "--num-gpu-blocks-override", "32",
                           "--max-model-len", "256", "--max-num-seqs", "4", *options) as server:
                found = self.subscribe(server, port, topic="kv@", kind=kind)
                first = found.numbers[0]
                self.assertGreater(self.load(server, found, 7, 60), 10)
                self.assertEqual({b"kv@pod@tiny"}, set(found.topics))
                self.assertEqual(list(range(first, first + len(found.numbers))), found.numbers)
                kinds = [type(event).__struct_config__.tag for batch in found.batches for event in batch.events]
                for kind_of_event in ("BlockStored", "BlockRemoved", "AllBlocksCleared"):
                    self.assertGreater(kinds.count(kind_of_event), 2, kind_of_event)
                self.assertEqual({0}, {batch.data_parallel_rank for batch in found.batches})
                self.assertLess(abs(found.batches[-1].ts - time.time()), LIMIT)
                self.assertEqual(0, server.metric("reprise:kv_event_payloads_dropped_total"))

    def test_fields_salts_and_whole_hashes(self):
        port = free_port()
        with Server(config(port), VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES="0") as server:
            found = self.subscribe(server, port)
            prompt = list(range(3, 3 + 2 * BLOCK + 1))
            server.complete(prompt)
            server.complete(prompt, cache_salt="tenant")
            found.wait_for(lambda: len(found.known) == 4)
            plain, salted = [event for batch in found.batches for event in batch.events if isinstance(event, BlockStored)]
            self.assertEqual([prompt[:2 * BLOCK]] * 2, [plain.token_ids, salted.token_ids])
            self.assertEqual(4, len({*plain.block_hashes, *salted.block_hashes}))
            self.assertEqual({bytes: 4}, {bytes: sum(isinstance(block, bytes) and len(block) == 32 for block in found.known)})
            self.assertEqual([None, None], plain.extra_keys)
            self.assertEqual([("tenant",), None], salted.extra_keys)
            for event in (plain, salted):
                self.assertEqual((None, BLOCK, None, "GPU", None, 0),
                                 (event.parent_block_hash, event.block_size, event.lora_id, event.medium, event.lora_name, event.group_idx))

    def test_missed_payloads_can_be_replayed(self):
        port, replay_port = free_port(), free_port()
        with Server(config(port, replay_endpoint=f"tcp://*:{replay_port}", buffer_steps=5, topic="t")) as server:
            for i in range(8):
                self.assertEqual(200, server.request("POST", "/reset_prefix_cache")[0])
            client = zmq.Context.instance().socket(zmq.DEALER)
            self.addCleanup(client.close, 0)
            client.connect(f"tcp://127.0.0.1:{replay_port}")
            # Malformed requests are ignored, and the next valid one is answered.
            for nonsense in ([b"", b"short"], [b"x" * 8], [b"", b"x" * 8, b"more"], [b"y"] * 40):
                client.send_multipart(nonsense)
            client.send_multipart([b"", (5).to_bytes(8, "big")])
            answers = []
            while not answers or answers[-1][2] != END.to_bytes(8, "big"):
                self.assertTrue(client.poll(LIMIT * 1000))
                answers.append(client.recv_multipart())
            self.assertEqual([(b"", b"t", number) for number in (5, 6, 7)],
                             [(delimiter, topic, int.from_bytes(number, "big")) for delimiter, topic, number, _ in answers[:-1]])
            for answer in answers[:-1]:
                self.assertEqual([AllBlocksCleared()], msgspec.msgpack.decode(answer[3], type=Batch).events)
            self.assertEqual([b"", b"", END.to_bytes(8, "big"), b""], answers[-1])

    def test_a_subscriber_that_stands_still_stops_nobody(self):
        port = free_port()
        with Server(config(port, hwm=1)) as server:
            still = zmq.Context.instance().socket(zmq.SUB)
            self.addCleanup(still.close, 0)
            still.setsockopt(zmq.RCVHWM, 1)
            still.setsockopt(zmq.SUBSCRIBE, b"")
            still.connect(f"tcp://127.0.0.1:{port}")  # and never reads
            found = self.subscribe(server, port)
            for i in range(200):
                server.complete([3 + i % 150] * BLOCK + [5])
            self.assertGreaterEqual(server.metric("reprise:kv_event_payloads_sent_total"), 150)
            self.assertTrue(found.numbers)

    def test_subscribers_that_never_read_take_a_bounded_memory(self):
        port = free_port()
        # The topic makes messages long, so that they fill the kernel's buffers first and then the server's.
        with Server(config(port, topic="x" * 4000), "--disable-uvicorn-access-log") as server:
            def memory():
                return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{server.process.pid}/status").read_text()).group(1)) / 1024

            def reset(number):
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
                for _ in range(number):
                    connection.request("POST", "/reset_prefix_cache")
                    connection.getresponse().read()
                connection.close()

            for _ in range(60):
                still = zmq.Context.instance().socket(zmq.SUB)
                self.addCleanup(still.close, 0)
                still.setsockopt(zmq.RCVHWM, 1)
                still.setsockopt(zmq.RCVBUF, 4096)
                still.setsockopt(zmq.SUBSCRIBE, b"")
                still.connect(f"tcp://127.0.0.1:{port}")  # and never reads
            found = self.subscribe(server, port)
            reset(2000)
            before = memory()
            for thread in [threading.Thread(target=reset, args=(3000,)) for _ in range(4)]:
                thread.start()
                self.addCleanup(thread.join)
            while server.metric("reprise:kv_event_payloads_sent_total") < 14_000:
                time.sleep(0.1)
            # Without a limit, each of the 60 would hold some 10,000 messages of 192 bytes. A sanitizer keeps freed memory.
            if "--any-memory" not in sys.argv:
                self.assertLess(memory() - before, 60)
            self.assertGreater(server.metric("reprise:kv_event_payloads_missed_total"), 0)
            self.wait_until_heard(server, found)

    def test_it_is_off_unless_asked_for(self):
        for fields in ({}, {"enable_kv_cache_events": False}, {"enable_kv_cache_events": True, "publisher": "null"}):
            with Server({"endpoint": "tcp://*:1", **fields}) as server:  # a port that cannot be used
                server.complete([3] * 40)
                self.assertEqual(0, server.metric("reprise:kv_event_payloads_sent_total"))
                self.assertNotIn("kv-events-config:", server.text())

    def test_operators_are_told_who_can_read_prompts(self):
        port = free_port()
        with Server(config(port)) as server:
            self.assertRegex(server.text(), rf"tcp://\*:{port} can read the tokens of all prompts")
        with tempfile.TemporaryDirectory() as folder, Server(config(0, endpoint=f"ipc://{folder}/events")) as server:
            self.assertNotIn("can read the tokens", server.text())
            found = Subscriber(f"ipc://{folder}/events")
            self.addCleanup(found.end)
            for i in range(100):
                server.request("POST", "/reset_prefix_cache")
                if found.batches:
                    break
                time.sleep(0.05)
            self.assertTrue(found.batches)
        with Server(config(free_port()), "--no-enable-prefix-caching") as server:
            self.assertIn("caches no prefixes", server.text())

    def test_mistakes_are_named(self):
        with socket.socket() as taken:
            taken.bind(("0.0.0.0", 0))
            taken.listen()
            port = taken.getsockname()[1]
            for value, message in (
                (config(port), rf"endpoint tcp://\*:{port}: Address already in use"),
                (config(free_port(), replay_endpoint=f"tcp://*:{port}"), "replay_endpoint .*Address already in use"),
                (config(0, endpoint="udp://x:1"), "endpoint is an address such as"),
                ({"enable_kv_cache_event": True}, "did you mean 'enable_kv_cache_events'"),
                ({"enable_kv_cache_events": 1}, "enable_kv_cache_events is true or false, got 1"),
                ({"publisher": "kafka"}, 'publisher is one of zmq, null'),
                ({"encoding": "xml"}, 'encoding is one of map, array'),
                ({"buffer_steps": -1}, "buffer_steps is a number from 0"),
                ({"hwm": 1.5}, "hwm is a number from 0"),
                ({"max_queue_size": 0}, "max_queue_size is a number from 1"),
                ({"topic": 3}, "topic is a text"),
                ([], "expected a JSON object"),
            ):
                with self.subTest(value=value):
                    done = subprocess.run([BINARY, "serve", MODEL, "--port", "0", "--kv-events-config", json.dumps(value)],
                                          capture_output=True, text=True, check=False, timeout=LIMIT)
                    self.assertEqual(2, done.returncode, done.stderr)
                    self.assertRegex(done.stderr, message)
            done = subprocess.run([BINARY, "serve", MODEL, "--dump-config", "--kv-events-config.topic", "a"],
                                  capture_output=True, text=True, check=True, timeout=LIMIT)
            self.assertIn('"topic":"a"', done.stdout)
            done = subprocess.run([BINARY, "serve", MODEL], capture_output=True, text=True, check=False, timeout=LIMIT,
                                  env={**os.environ, "VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES": "yes"})
            self.assertEqual(2, done.returncode)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
