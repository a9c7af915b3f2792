#!/usr/bin/env python3
"""Many different HTTP requests at once: priorities, shared prefixes, constraints, clients that leave, a small cache.

    serve_storm.py REPRISE_BINARY MODEL_FOLDER [--requests N] [--clients N]

Every answer must equal the answer to the same request alone, every constrained answer must be valid, and no request
or cache block may be left. Uses only Python's standard library.
"""

import argparse
import json
import queue
import random
import re
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "integration"))
import serve_test

PREFIXES = ["", "Once upon a time there was a small fox. " * 3, "The king of the hill had a red hat. " * 6]
# 72 blocks of 16 tokens of the bundled model. Thirty requests together want three times as many.
CACHE_BYTES = 72 * 24 * 1024
CONSTRAINTS = [
    ({"structured_outputs": {"regex": "[a-f]{3,9}-[0-9]{2}"}}, lambda text: re.fullmatch("[a-f]{3,9}-[0-9]{2}", text)),
    ({"structured_outputs": {"choice": ["yes", "no", "maybe"]}}, lambda text: text in ("yes", "no", "maybe")),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {
        "type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"type": "boolean"}},
        "required": ["n", "b"], "additionalProperties": False}}}},
     lambda text: set(json.loads(text)) == {"n", "b"} and 0 <= json.loads(text)["n"] <= 99),
]


def make_request(index, has_constraints):
    chance = random.Random(index)
    body = {"model": serve_test.NAME, "prompt": chance.choice(PREFIXES) + f"Number {index % 40} said",
            "max_tokens": chance.randint(1, 90), "temperature": chance.choice([0, 1]), "seed": index,
            "priority": chance.randint(-3, 3), "stream": chance.random() < 0.5, "ignore_eos": True}
    is_valid = None
    if has_constraints and chance.random() < 0.3:
        constraint, is_valid = chance.choice(CONSTRAINTS)
        body.update(constraint, max_tokens=100, ignore_eos=False)
    goes_after = chance.randint(0, 20) if body["stream"] and is_valid is None and chance.random() < 0.4 else None
    return body, is_valid, goes_after


def ask(server, body, goes_after=None):
    """The answer's text and finish reason; None for a client that left early."""
    connection = server.connect()
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise AssertionError(f"{response.status}: {response.read()}")
        if not body["stream"]:
            choice = json.loads(response.read())["choices"][0]
            return choice["text"], choice["finish_reason"]
        text, reason = "", None
        for number, line in enumerate(line for line in response if line.startswith(b"data: {")):
            if number == goes_after:
                return None
            event = json.loads(line[6:])
            if "error" in event:
                raise AssertionError(event)
            text += event["choices"][0]["text"]
            reason = event["choices"][0]["finish_reason"] or reason
        return text, reason
    finally:
        connection.close()


def run_storm(server, requests, num_clients):
    waiting, answers, failures = queue.SimpleQueue(), {}, []
    for index in range(len(requests)):
        waiting.put(index)

    def client():
        while not failures:
            try:
                index = waiting.get_nowait()
            except queue.Empty:
                return
            body, _, goes_after = requests[index]
            try:
                answers[index] = ask(server, body, goes_after)
            except Exception as error:  # every exception is a failure of the test
                failures.append((index, body, error))

    clients = [threading.Thread(target=client) for _ in range(num_clients)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    assert not failures, failures[0]
    return answers


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--clients", type=int, default=48)
    options = parser.parse_args()
    serve_test.BINARY, serve_test.MODEL = options.binary, options.model
    server = serve_test.Server("--max-model-len", "512", "--scheduling-policy", "priority", "--kv-cache-memory-bytes",
                               str(CACHE_BYTES))
    try:
        status, _ = server.post("/v1/completions", serve_test.stories(**CONSTRAINTS[0][0]))
        has_constraints = status == 200  # the library for them is optional
        requests = [make_request(index, has_constraints) for index in range(options.requests)]
        answers = run_storm(server, requests, options.clients)
        preemptions = server.metric("vllm:num_preemptions_total")
        server.wait_until(lambda: server.metric("vllm:num_requests_running") + server.metric("vllm:num_requests_waiting") == 0)
        finished = {index: answer for index, answer in answers.items() if answer is not None}
        num_constrained = 0
        for index, answer in finished.items():
            body, is_valid, _ = requests[index]
            assert answer == ask(server, body), (index, body, answer)
            if is_valid:
                num_constrained += 1
                assert answer[1] == "stop" and is_valid(answer[0]), (body, answer)
        assert len(answers) == options.requests
        assert server.metric("vllm:kv_cache_usage_perc") == 0
        assert server.metric("vllm:request_success_total", 'finished_reason="error"') == 0
        assert server.metric("reprise:failed_steps_total") == 0
        assert preemptions > len(finished) / 10, preemptions
        print(f"{options.requests} requests, {options.requests - len(finished)} clients went, {preemptions:.0f} preemptions, "
              f"{num_constrained} constrained: every one of {len(finished)} answers is that of the request alone")
    finally:
        server.stop()


if __name__ == "__main__":
    main()
