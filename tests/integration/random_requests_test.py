#!/usr/bin/env python3
"""Random sampling parameters with random constraints: no answer is a 5xx, and none depends on its neighbours.

    random_requests_test.py REPRISE_BINARY MODEL_FOLDER [--requests N] [--seed N]

Each request is valid or odd in itself; many combinations make no sense. All are sent at once by several clients and
then one by one: both answers must be equal. Only Python's standard library.
"""

import argparse
import json
import random
import re
import threading

import serve_test

CLIENTS = 8
VOCABULARY = 1024  # of the bundled model
EOS = 2
REGEXES = ["[0-9]{3}-[a-f]{2,4}", "(yes|no)!?", "[a-z ]{1,40}\\.", "\\w+@\\w+\\.org", "x*", ".*.*b", ".*" * 40 + "\u2603"]
SCHEMAS = [{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}, "required": ["a"]},
           {"type": "array", "items": {"type": "boolean"}, "maxItems": 3}, {"const": "once"}, {"type": "string", "format": "date"},
           {"type": "number", "minimum": 0, "maximum": 1}]
# The only 503 of a running server: on a busy machine, a specification may wait too long to be compiled.
BUSY = re.compile("the server is busy|grammars from this client wait")
GRAMMARS = ['root ::= "(" root ")" | [0-9]', 'root ::= ""', 'root ::= "" | [a-c] root', "root ::= root root | [a-z]"]


def some(source, probability, value):
    return value if source.random() < probability else None


def tokens(source, most):
    return [source.choice([EOS, 1, 3, source.randrange(VOCABULARY)]) for _ in range(source.randint(1, most))]


def constraint(source):
    kind = source.choice(["regex", "json", "grammar", "choice", "json_object"])
    return {kind: {"regex": source.choice(REGEXES), "json": source.choice(SCHEMAS), "grammar": source.choice(GRAMMARS),
                   "choice": source.sample(["one", "two", "one two", "\u00e9", "0"], source.randint(1, 4)),
                   "json_object": True}[kind]}


def request(source):
    max_tokens = source.randint(1, 30)
    fields = {
        "prompt": source.choice(["Once", "The cat", tokens(source, 20), "1, 2, 3,", ["A", "B"]]),
        "max_tokens": max_tokens,
        "seed": source.randint(-5, 1 << 40),
        "temperature": some(source, 0.7, source.choice([0, 1e-6, 0.3, 1.0, 2.0])),
        "top_p": some(source, 0.4, source.choice([1e-6, 0.1, 0.9, 1.0])),
        "top_k": some(source, 0.4, source.choice([-1, 0, 1, 5, 10**6])),
        "min_p": some(source, 0.3, source.choice([0, 0.05, 1.0])),
        "repetition_penalty": some(source, 0.4, source.choice([1e-45, 1e-30, 0.5, 1.1, 2.0])),
        "presence_penalty": some(source, 0.3, source.choice([-2, 0.5, 2])),
        "frequency_penalty": some(source, 0.3, source.choice([-2, 0.5, 2])),
        "min_tokens": some(source, 0.3, source.randint(0, max_tokens)),
        "ignore_eos": some(source, 0.2, True),
        "stop": some(source, 0.2, source.sample(["a", " the", "\n", "\u00e9"], 2)),
        "stop_token_ids": some(source, 0.2, tokens(source, 3)),
        "allowed_token_ids": some(source, 0.15, tokens(source, 6)),
        "bad_words": some(source, 0.15, source.sample(["a", " ", "the", "e"], 2)),
        "logit_bias": some(source, 0.2, {str(token): source.choice([-100, -1, 3, 100]) for token in tokens(source, 4)}),
        "logprobs": some(source, 0.3, source.randint(0, 5)),
        "n": some(source, 0.2, source.randint(1, 3)),
        "structured_outputs": some(source, 0.5, constraint(source)),
    }
    return {name: value for name, value in fields.items() if value is not None}


def is_busy(status, message):
    return status == 503 and BUSY.match(message) is not None


def comparable(answer):
    """What of an answer the request alone decides."""
    return [{name: choice[name] for name in ("index", "text", "finish_reason", "stop_reason", "logprobs")}
            for choice in sorted(answer["choices"], key=lambda choice: choice["index"])]


def send_at_once(server, requests):
    answers = [None] * len(requests)

    def client(first):
        for i in range(first, len(requests), CLIENTS):
            answers[i] = server.post("/v1/completions", requests[i])

    threads = [threading.Thread(target=client, args=(first,)) for first in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--requests", type=int, default=250)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    serve_test.BINARY, serve_test.MODEL = options.binary, options.model
    source = random.Random(options.seed)
    requests = [request(source) for _ in range(options.requests)]
    server = serve_test.Server()
    counts = {"good": 0, "refused": 0, "over budget": 0, "busy": 0}
    try:
        together = send_at_once(server, requests)
        for body, (status, answer) in zip(requests, together):
            text = json.dumps(body)
            alone_status, alone = server.post("/v1/completions", body)
            if any(each == 503 and is_busy(each, error["error"]["message"]) for each, error in ((status, answer), (alone_status, alone))):
                counts["busy"] += 1
                continue
            assert status < 500 and alone_status < 500, (status, answer, alone_status, alone, text)
            # Masks that another answer has made cost no work, so the budget may be enough for only one of the two.
            if any("structured output: the grammar" in json.dumps(each) for each in (answer, alone)):
                counts["over budget"] += 1
                continue
            assert status == alone_status, (status, answer, alone_status, alone, text)
            counts["good" if status == 200 else "refused"] += 1
            if status == 200:
                assert comparable(answer) == comparable(alone), (answer, alone, text)
    finally:
        server.stop()
    assert counts["good"] > (options.requests - counts["busy"]) * 0.6, counts
    print(counts)


if __name__ == "__main__":
    main()
