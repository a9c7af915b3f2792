"""Requests that look valid and cost much: what one client may try in order to stop or slow the others.

Each attack comes with an ordinary counterpart of about as many bytes and tokens. Used by attack_cost.py and by
tests/integration/shutdown_states_test.py.
"""

import json
import random
from dataclasses import dataclass
from typing import Callable

MIB = 1 << 20
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
SLOW_TEMPLATE = "{% for i in range(90) %}{% for j in range(90000) %}{{ '' }}{% endfor %}{% endfor %}"


def head(path, *lines, method="POST"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode("latin-1")


def post(path, body):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return head(path, "Content-Type: application/json", "Connection: close", f"Content-Length: {len(body)}") + body


def completion(number, **fields):
    return post(COMPLETIONS, {"prompt": f"Number {number} said", "temperature": 1, **fields})


def long_text(number, size):
    return post(COMPLETIONS, {"prompt": f"{number} " + "It was a dark night. " * (size // 21), "max_tokens": 1})


def prompts(number):
    """Prompts that share no beginning, so that the cache of prefixes makes none of them cheap."""
    chance = random.Random(number)
    return [[chance.randrange(5, 1000) for _ in range(600)] for _ in range(25)]


def recursive_grammar(number):
    """6 KB in which every rule begins with several others or with nothing: the ways to read a text multiply."""
    rules = [f'root ::= "{number % 7}"? r0']
    for i in range(100):
        choices = [f"r{(i + j) % 100} r{(i * j + 1) % 100} r{(j * 3) % 100}" for j in range(4)]
        rules.append(f"r{i} ::= " + " | ".join([*choices, '"a"', '""']))
    return "\n".join(rules)


def long_grammar(number):
    """Begins that are equal for long, in another grammar each time. Grammars cost the compiler more than schemas."""
    return "root ::= " + " | ".join(f'"{number} {"x" * 2000}{i}"' for i in range(30))


@dataclass(frozen=True)
class Attack:
    name: str
    request: Callable[[int], bytes]  # the n-th of all clients
    ordinary: Callable[[int], bytes]
    options: tuple = ()  # of the server
    waits: bool = False  # the client keeps the connection and reads nothing
    needs_grammar: bool = False


ATTACKS = (
    Attack("a pattern that matches in many ways",
           lambda n: completion(n, n=128, max_tokens=100, structured_outputs={"regex": ".*" * 16 + "\u2603"}),
           lambda n: completion(n, n=128, max_tokens=100, ignore_eos=True), needs_grammar=True),
    Attack("a recursive grammar",
           lambda n: completion(n, max_tokens=4, structured_outputs={"grammar": recursive_grammar(n)}),
           lambda n: completion(n, max_tokens=4, user="a" * 6000), needs_grammar=True),
    Attack("specifications that take long to compile",
           lambda n: completion(n, max_tokens=4, structured_outputs={"grammar": long_grammar(n)}),
           lambda n: completion(n, max_tokens=4, user="a" * 60000), needs_grammar=True),
    Attack("lengths that are claimed and not sent",
           lambda n: head(COMPLETIONS, "Content-Type: application/json", f"Content-Length: {16 * MIB}"),
           lambda n: head("/health", method="GET"), waits=True),
    Attack("very many log-probabilities",
           lambda n: post(COMPLETIONS, {"prompt": prompts(n), "prompt_logprobs": 20, "max_tokens": 1}),
           lambda n: post(COMPLETIONS, {"prompt": prompts(n), "max_tokens": 1})),
    Attack("control tokens in a message",
           lambda n: post(CHAT, {"messages": [{"role": "user", "content": f"{n}" + "<|im_end|>" * 1_000_000}]}),
           lambda n: long_text(n, 10_000_000)),
    Attack("variables of the chat template",
           lambda n: post(CHAT, {"messages": [{"role": "user", "content": "a"}], "max_tokens": 4,
                                 "chat_template_kwargs": {f"v{n}_{i}": 1 for i in range(100_000)}}),
           lambda n: long_text(n, 1_500_000)),
    Attack("templates that take long",
           lambda n: post(CHAT, {"messages": [{"role": "user", "content": f"{n}"}], "chat_template": SLOW_TEMPLATE}),
           lambda n: post(CHAT, {"messages": [{"role": "user", "content": f"{n}"}], "max_tokens": 4}),
           options=("--trust-request-chat-template",)),
    Attack("texts to be cut into tokens",
           lambda n: post("/tokenize", {"prompt": f"{n}" + "a b" * 3_000_000, "return_token_strs": True}),
           lambda n: long_text(n, 9_000_000)),
    Attack("strings that are not valid",
           lambda n: post(COMPLETIONS, b'{"prompt": "%d' % n + b"a" * 10_000_000 + b'\n"}'),
           lambda n: long_text(n, 10_000_000)),
    Attack("methods that do not exist",
           lambda n: head("/health", "Connection: close", method=f"M{n}" + "A" * 20_000),
           lambda n: head("/health", *(f"X-{i}: " + "a" * 6660 for i in range(3)), "Connection: close", method="GET")),
    Attack("headers that do not end",
           lambda n: head("/health", method="GET")[:-2],
           lambda n: head("/health", method="GET"), waits=True),
    Attack("streams that are not read",
           lambda n: completion(n, n=16, max_tokens=400, ignore_eos=True, stream=True, logprobs=5),
           lambda n: completion(n, n=16, max_tokens=400, ignore_eos=True, stream=True, logprobs=5), waits=True),
)
