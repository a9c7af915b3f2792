#!/usr/bin/env python3
"""Every price of a request is counted before it is paid: the server's memory stays below 8 times the body and 32 MiB.

    request_memory_test.py REPRISE_BINARY MODEL_FOLDER [--all] [--seed N] [--any-memory]

Each case puts one filler (dense arrays, empty texts, JSON in a text, control tokens, ...) of one size into one field of a
request, and reads the largest memory that the server took meanwhile. /tokenize, whose answer has all tokens of the text, may take
40 times the body. Without --all a few cases are chosen by the seed, besides those that attacks have found. With --any-memory only
the answers count: sanitizers multiply memory. Linux only: /proc tells the memory. Only Python's standard library.
"""

import argparse
import json
import random
import sys
import time
import unittest
from pathlib import Path

import serve_test
from server_limits_test import Case, head

KIB, MIB = 1 << 10, 1 << 20
TIMES, ROOM = 8, 32 * MIB
# The pieces of a long text and its tokens are kept until the answer is written.
TIMES_OF_TOKENIZE = 40
CHOSEN = 6
ALL, SEED, ANY_MEMORY = False, 1, False
COMPLETIONS, CHAT, TOKENIZE, DETOKENIZE = "/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"


def repeated(piece, size, begin="", end="", between=","):
    """JSON or text of about `size` bytes: begin, pieces with `between`, end."""
    count = max(1, size // len((piece + between).encode()))
    return begin + between.join([piece] * count) + end


def numbered(make, size, begin, end):
    count = max(1, size // len(make(10**6)))
    return begin + ",".join(make(number) for number in range(count)) + end


def as_text(json_text):
    return json.dumps(json_text)


# Named JSON values, each made for a given number of bytes.
FILLERS = {
    "letters": lambda size: as_text("a" * size),
    "words": lambda size: as_text(repeated("a b", size, between=" ")),
    "spaces": lambda size: as_text(" " * size),
    "accents": lambda size: '"' + "\u00e9" * (size // 2) + '"',
    "ligatures": lambda size: '"' + "\ufdfa" * (size // 3) + '"',
    "escapes": lambda size: repeated("\\u00e9", size, '"', '"', ""),
    "control tokens": lambda size: repeated("<|im_end|>", size, '"', '"', ""),
    "braces": lambda size: as_text("{{" * (size // 2)),
    "arrays": lambda size: repeated("[]", size, "[", "]"),
    "objects": lambda size: repeated("{}", size, "[", "]"),
    "texts": lambda size: repeated('""', size, "[", "]"),
    "short texts": lambda size: repeated('"a"', size, "[", "]"),
    "numbers": lambda size: repeated("5", size, "[", "]"),
    "fractions": lambda size: repeated("0.5", size, "[", "]"),
    "nulls": lambda size: repeated("null", size, "[", "]"),
    "members": lambda size: numbered(lambda n: f'"{n}":0', size, "{", "}"),
    "members with objects": lambda size: numbered(lambda n: f'"{n}":{{}}', size, "{", "}"),
    "nested": lambda size: repeated("[" * 50 + "]" * 50, size, "[", "]"),
    "lists of numbers": lambda size: repeated("[5,5,5]", size, "[", "]"),
    "JSON text of arrays": lambda size: as_text(repeated("[]", size, '{"a":[', "]}")),
    "JSON text of texts": lambda size: as_text(repeated('""', size // 2, '{"a":[', "]}")),
    "JSON text of numbers": lambda size: as_text(repeated("5", size, '{"a":[', "]}")),
    "JSON text of members": lambda size: as_text(numbered(lambda n: f'"{n}":0', size // 2, "{", "}")),
}

USER = '{"role":"user","content":"a"}'


def field(name, path=COMPLETIONS):
    rest = {COMPLETIONS: '"max_tokens":1,"prompt":"a"', CHAT: f'"max_tokens":1,"messages":[{USER}]', TOKENIZE: '"prompt":"a"',
            DETOKENIZE: '"tokens":[5]'}[path]
    rest = ",".join(part for part in [rest] if name not in ("prompt", "messages", "tokens"))
    if name in ("prompt", "messages", "tokens") and path in (COMPLETIONS, CHAT):
        rest = '"max_tokens":1'
    elif name in ("prompt", "messages", "tokens"):
        rest = '"add_special_tokens":false' if path == TOKENIZE else ""
    return path, lambda value: "{" + ",".join(part for part in (rest, f'"{name}":{value}') if part) + "}"


def chat(inside):
    """A place inside a chat: VALUE in the text of its members."""
    return CHAT, lambda value: '{"max_tokens":1,' + inside.replace("VALUE", value) + "}"


def messages(inside):
    return chat(f'"messages":[{inside},{USER}]')


def call(inside):
    return messages('{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"f",' + inside + "}}]}")


def tool(inside):
    return chat(f'"messages":[{USER}],"tools":[{{"type":"function","function":{{"name":"f",{inside}}}}}]')


def listed(piece, begin, end, path=CHAT):
    """A list with one entry again and again; the filler is not used."""
    return path, lambda size: begin + repeated(piece, size) + end


PLACES = {
    **{f"completions {name}": field(name) for name in (
        "prompt", "suffix", "stop", "logit_bias", "bad_words", "stop_token_ids", "allowed_token_ids", "cache_salt", "user", "model",
        "stream_options", "structured_outputs", "kv_transfer_params", "request_id", "unknown", "max_tokens", "seed", "priority")},
    **{f"chat {name}": field(name, CHAT) for name in (
        "messages", "tools", "tool_choice", "response_format", "chat_template_kwargs", "chat_template", "documents", "metadata",
        "reasoning_effort", "logit_bias", "stop", "structured_outputs", "mm_processor_kwargs")},
    **{f"tokenize {name}": field(name, TOKENIZE) for name in ("prompt", "messages", "tools", "chat_template_kwargs")},
    "detokenize tokens": field("tokens", DETOKENIZE),
    "content": messages('{"role":"user","content":VALUE}'),
    "content part": messages('{"role":"user","content":[{"type":"text","text":VALUE}]}'),
    "content parts": messages('{"role":"user","content":VALUE}'),
    "name": messages('{"role":"user","content":"a","name":VALUE}'),
    "reasoning": messages('{"role":"assistant","content":"a","reasoning_content":VALUE}'),
    "tool call id": messages('{"role":"tool","content":"a","tool_call_id":VALUE}'),
    "tool calls": messages('{"role":"assistant","content":"a","tool_calls":VALUE}'),
    "arguments": call('"arguments":VALUE'),
    "function of a call": call('"arguments":"{}","more":VALUE'),
    "description": tool('"description":VALUE'),
    "parameters": tool('"parameters":VALUE'),
    "properties": tool('"parameters":{"type":"object","properties":VALUE}'),
    "enum": tool('"parameters":{"type":"object","properties":{"a":{"enum":VALUE}}}'),
    "schema": chat(f'"messages":[{USER}],"response_format":{{"type":"json_schema","json_schema":{{"name":"a","schema":VALUE}}}}'),
    "template variable": chat(f'"messages":[{USER}],"chat_template_kwargs":{{"a":VALUE}}'),
    **{f"structured {kind}": chat(f'"messages":[{USER}],"structured_outputs":{{"{kind}":VALUE}}')
       for kind in ("json", "regex", "choice", "grammar", "structural_tag")},
}
# Lists whose entries are objects.
LISTS = {
    "many messages": listed(USER, '{"max_tokens":1,"messages":[', "]}"),
    "many parts": listed('{"type":"text","text":"a"}', '{"max_tokens":1,"messages":[{"role":"user","content":[', "]}]}"),
    "many calls": listed('{"type":"function","function":{"name":"f","arguments":"[[],[],[]]"}}',
                         '{"max_tokens":1,"messages":[{"role":"assistant","tool_calls":[', "]}," + USER + "]}"),
    "many prompts": listed('"a"', '{"max_tokens":1,"prompt":[', "]}", COMPLETIONS),
    "many prompts of ids": listed("[5]", '{"max_tokens":1,"prompt":[', "]}", COMPLETIONS),
}
# Bodies that attacks have found, with the memory that they took: 1.2 GB and 0.5 GB.
FOUND = [("arguments", "JSON text of arrays"), ("completions unknown", "texts"), ("completions prompt", "texts"),
         ("arguments", "JSON text of texts"), ("completions prompt", "numbers"), ("content", "words"),
         ("tokenize prompt", "words"), ("chat chat_template_kwargs", "members"), ("arguments", "JSON text of numbers")]


def cases():
    """(name, path, make a body of about so many bytes)"""
    made = {}
    for place, (path, body) in PLACES.items():
        for filler, value in FILLERS.items():
            made[place, filler] = path, lambda size, body=body, value=value: body(value(size))
    lists = {(name, "entries"): value for name, value in LISTS.items()}
    if ALL:
        return made | lists
    dice = random.Random(SEED)
    chosen = FOUND + dice.sample(sorted(made), CHOSEN)
    return {name: made[name] for name in chosen} | lists


class RequestMemory(Case):
    @classmethod
    def setUpClass(cls):
        # With one arena, memory that one thread frees can be used by the next, and goes back to the system.
        cls.server = serve_test.Server("--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--disable-uvicorn-access-log",
                                       MALLOC_ARENA_MAX="1")
        for path, body in ((COMPLETIONS, '{"prompt":"a","max_tokens":1}'), (CHAT, f'{{"messages":[{USER}],"max_tokens":1}}'),
                           (CHAT, f'{{"messages":[{USER}],"max_tokens":1,"structured_outputs":{{"json":{{"type":"object"}}}}}}')):
            cls.server.request("POST", path, body)
        cls.process = Path(f"/proc/{cls.server.process.pid}")
        time.sleep(3)
        cls.least = cls.memory("VmRSS")

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, (code, cls.server.text())

    @classmethod
    def memory(cls, what):
        for line in (cls.process / "status").read_text(encoding="ascii").splitlines():
            if line.startswith(what + ":"):
                return int(line.split()[1]) * KIB
        raise AssertionError(what)

    def settle(self):
        """Waits until the server has given back what earlier cases took, at most a few seconds."""
        end = time.monotonic() + (0 if ANY_MEMORY else 3)
        while self.memory("VmRSS") > self.least + 16 * MIB and time.monotonic() < end:
            time.sleep(0.1)

    def ask(self, path, body):
        data = body.encode()
        self.settle()
        (self.process / "clear_refs").write_text("5", encoding="ascii")  # the peak begins again
        before = min(self.memory("VmRSS"), self.least + 16 * MIB)
        answer = self.read(self.open(self.server, head("POST", path, "Content-Type: application/json", "Connection: close",
                                                       f"Content-Length: {len(data)}") + data))
        return int(answer[9:12] or 0), len(data), self.memory("VmHWM") - before

    def test_memory_is_bounded_by_the_size_of_the_request(self):
        sizes = (64 * KIB, MIB, 8 * MIB, 15 * MIB) if ALL else (600 * KIB, 6 * MIB)
        worst, too_much, count = [], [], 0
        for (place, filler), (path, make) in cases().items():
            for size in sizes:
                name = f"{place}, {filler}, {size >> 10} KiB"
                status, num_bytes, taken = self.ask(path, make(size))
                count += 1
                self.assertTrue(200 <= status < 500 or status == 503, (name, status))
                self.assertEqual(self.server.request("GET", "/health")[0].status, 200, name)
                share = taken / ((TIMES_OF_TOKENIZE if path == TOKENIZE else TIMES) * num_bytes + ROOM)
                worst.append((round(share, 2), name, status, f"{taken / MIB:.0f} MiB"))
                if share > 1 and not ANY_MEMORY:
                    too_much.append(worst[-1])
        worst.sort(reverse=True)
        print(f"{count} requests; the largest shares of {TIMES} x body + {ROOM // MIB} MiB: {worst[:8]}", flush=True)
        self.assertEqual(too_much, [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--any-memory", action="store_true")
    options = parser.parse_args()
    serve_test.BINARY, serve_test.MODEL = options.binary, options.model
    ALL, SEED, ANY_MEMORY = options.all, options.seed, options.any_memory
    unittest.main(argv=sys.argv[:1], verbosity=2)
