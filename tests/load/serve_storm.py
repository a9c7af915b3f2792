#!/usr/bin/env python3
"""Many different HTTP requests at once: priorities, shared prefixes, constraints, clients that leave, a small cache.

    serve_storm.py REPRISE_BINARY MODEL_FOLDER [--requests N] [--clients N] [--seed N]
    serve_storm.py REPRISE_BINARY MODEL_FOLDER --traces N [--seed N] [--first N] [--minutes N] [--pool N] [--together N]

The first form sends all requests as fast as its clients can. The second form plays traces: a few requests that arrive,
overlap and go at times of their own, while the server is sent to sleep or forgets its cached prefixes. In both forms
every answer must be that of the same request alone, every constrained one valid, and nothing may be left behind. A trace
depends only on the seed and its number, so --first N --traces 1 repeats the N-th one. With --pool N the requests of all
traces come from N different ones, each of which is asked alone only once: most of the time of a long run then goes into
the traces. With --together N so many of them are played at the same moment, with a larger cache. Uses only Python's
standard library.
"""

import argparse
import collections
import json
import queue
import random
import re
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "integration"))
import random_requests_test
import serve_test
import trace_client

PREFIXES = ["", "Once upon a time there was a small fox. " * 3, "The king of the hill had a red hat. " * 6]
BLOCK_BYTES = 24 * 1024  # 16 tokens of the bundled model
STORM_BLOCKS = 72  # thirty requests want three times as many
TRACE_BLOCKS = 34  # one request of 512 tokens fits
# The answers of a pool are shorter, and the cache must be too small for these, too.
POOL_BLOCKS, POOL_MODEL_LEN = 17, 256
# Blocks for each further conversation that is played at the same moment: fewer than the conversations want.
BLOCKS_OF_TRACE = 4
CONSTRAINTS = [
    ({"structured_outputs": {"regex": "[a-f]{3,9}-[0-9]{2}"}}, lambda text: re.fullmatch("[a-f]{3,9}-[0-9]{2}", text)),
    ({"structured_outputs": {"choice": ["yes", "no", "maybe"]}}, lambda text: text in ("yes", "no", "maybe")),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {
        "type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"type": "boolean"}},
        "required": ["n", "b"], "additionalProperties": False}}}},
     lambda text: set(json.loads(text)) == {"n", "b"} and 0 <= json.loads(text)["n"] <= 99),
]
# A constraint whose masks other answers have already computed costs nothing.
OVER_BUDGET = "structured output: the grammar"
OVER_TIME = "the grammar is too complex: compiling it took more than"  # which depends on other programs
# A machine with other work to do may stop the client for seconds between connecting and sending.
PATIENCE = ["--header-timeout", "900", "--body-timeout", "900"]


@dataclass
class Request:
    body: dict
    is_valid: object = None  # for the text of a constrained answer
    goes_after: int = None  # events; None: the client stays
    delay: float = 0  # seconds after the begin of its trace


def make_request(chance, index, has_constraints):
    body = {"model": serve_test.NAME, "prompt": chance.choice(PREFIXES) + f"Number {index % 40} said",
            "max_tokens": chance.randint(1, 90), "temperature": chance.choice([0, 1]), "seed": index,
            "priority": chance.randint(-3, 3), "stream": chance.random() < 0.5, "ignore_eos": True}
    is_valid = None
    if has_constraints and chance.random() < 0.3:
        constraint, is_valid = chance.choice(CONSTRAINTS)
        body.update(constraint, max_tokens=100, ignore_eos=False)
    goes_after = chance.randint(0, 20) if body["stream"] and is_valid is None and chance.random() < 0.4 else None
    return Request(body, is_valid, goes_after)


def make_odd_request(chance, index, has_constraints):
    """Random parameters, many of which make no sense together."""
    body = random_requests_test.request(chance)
    if not has_constraints:
        body.pop("structured_outputs", None)
    if isinstance(body["prompt"], str):
        body["prompt"] = chance.choice(PREFIXES) + body["prompt"]
    body.update(model=serve_test.NAME, priority=chance.randint(-3, 3), stream=chance.random() < 0.5)
    if chance.random() < 0.2:
        body["cache_salt"] = f"salt {index % 2}"
    if not body["stream"] and chance.random() < 0.2:
        body["prompt_logprobs"] = chance.randint(0, 3)
    return Request(body, goes_after=chance.randint(0, 10) if body["stream"] and chance.random() < 0.3 else None)


class Choices:
    """What the events of a stream, or a whole answer, say about each choice."""

    def __init__(self):
        self.of = {}

    def add(self, event):
        for choice in event["choices"]:
            known = self.of.setdefault(choice["index"], {"text": "", "finish_reason": None, "stop_reason": None,
                                                         "logprobs": {}, "prompt_logprobs": None})
            known["text"] += choice["text"]
            for name in ("finish_reason", "stop_reason", "prompt_logprobs"):
                known[name] = choice.get(name) if choice.get(name) is not None else known[name]
            for name, values in (choice.get("logprobs") or {}).items():
                known["logprobs"].setdefault(name, []).extend(values)


def ask(server, request):
    """The status, and the choices or the error; None for a client that went."""
    connection = server.connect()
    try:
        connection.request("POST", "/v1/completions", json.dumps(request.body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            return response.status, json.loads(response.read())["error"]["message"]
        choices = Choices()
        if not request.body["stream"]:
            choices.add(json.loads(response.read()))
            return 200, choices.of
        for number, line in enumerate(line for line in response if line.startswith(b"data: {")):
            if number == request.goes_after:
                return None
            event = json.loads(line[6:])
            if "error" in event:
                return event["error"]["code"], event["error"]["message"]
            choices.add(event)
        return 200, choices.of
    finally:
        connection.close()


class Alone:
    """The answer to each request alone. Asked for when nothing else runs, once for each different request."""

    def __init__(self, server):
        self.server, self.known = server, {}

    def answer(self, request):
        key = json.dumps(request.body)
        if key not in self.known:
            answer = ask(self.server, Request(request.body))
            if is_busy(answer) or answer[0] == 400 and OVER_TIME in answer[1]:
                return answer  # next time there may be time enough
            self.known[key] = answer
        return self.known[key]


def is_busy(answer):
    return answer[0] == 503 and random_requests_test.is_busy(*answer)


def check_answer(alone_answers, request, answer):
    """Fails unless the answer is that of the request alone. Returns what kind of answer it is."""
    alone = alone_answers.answer(request)
    if is_busy(answer) or is_busy(alone):
        return "busy"
    assert answer[0] < 500 and alone[0] < 500, (answer, alone, request.body)
    if any(status == 400 and OVER_BUDGET in text for status, text in (answer, alone)):
        return "over budget"
    if any(status == 400 and OVER_TIME in text for status, text in (answer, alone)):
        return "over time"
    assert answer == alone, f"\nbeside others: {answer}\nalone:         {alone}\nrequest:       {json.dumps(request.body)}"
    if request.is_valid:
        choice = answer[1][0]
        assert choice["finish_reason"] == "stop" and request.is_valid(choice["text"]), (request.body, answer)
        return "constrained"
    return "plain" if answer[0] == 200 else "refused"


def check_nothing_is_left(server):
    server.wait_until(lambda: server.metric("vllm:num_requests_running") + server.metric("vllm:num_requests_waiting") == 0)
    server.wait_until(lambda: server.metric("vllm:kv_cache_usage_perc") == 0)
    assert server.metric("reprise:failed_steps_total") == 0


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
            try:
                answers[index] = ask(server, requests[index])
            except Exception as error:  # whatever it is, the storm has failed
                failures.append((index, requests[index], error))

    clients = [threading.Thread(target=client) for _ in range(num_clients)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    assert not failures, failures[0]
    return answers


def storm(server, options, has_constraints):
    requests = [make_request(random.Random(options.seed + index), index, has_constraints) for index in range(options.requests)]
    answers = run_storm(server, requests, options.clients)
    preemptions = server.metric("vllm:num_preemptions_total")
    check_nothing_is_left(server)
    finished = {index: answer for index, answer in answers.items() if answer is not None}
    alone = Alone(server)
    kinds = [check_answer(alone, requests[index], answer) for index, answer in finished.items()]
    assert len(answers) == options.requests
    assert "refused" not in kinds
    assert server.metric("vllm:request_success_total", 'finished_reason="error"') == 0
    assert preemptions > len(finished) / 10, preemptions
    print(f"{options.requests} requests, {options.requests - len(finished)} clients went, {preemptions:.0f} preemptions, "
          f"{kinds.count('constrained')} constrained: every one of {len(finished)} answers is that of the request alone")


def make_any(chance, index, options, has_constraints):
    if options.pool:
        index = chance.randrange(options.pool)
        request = make_any(random.Random(f"pool {options.seed} {index}"), index, argparse.Namespace(pool=0), has_constraints)
        request.body["max_tokens"] = min(request.body["max_tokens"], 100 if request.is_valid else 24)
        request.body["min_tokens"] = min(request.body.get("min_tokens", 0), request.body["max_tokens"])
        if request.goes_after is not None:
            request.goes_after = chance.randint(0, 10)
        return request
    return chance.choice([make_request, make_odd_request])(chance, index, has_constraints)


def to_answer(response):
    """What ask() says about the same response."""
    if response is None:
        return None
    status, events = response
    error = next((event["error"] for event in events if "error" in event), None)
    if error:
        assert status == error["code"] or status == 200, (status, error)
        return error["code"], error["message"]
    choices = Choices()
    for event in events:
        choices.add(event)
    return status, choices.of


def make_trace(options, number, has_constraints):
    """The requests of a trace, and the sources of chance of its operators."""
    chance = random.Random(f"{options.seed} {number}")
    requests = []
    for index in range(chance.randint(2, 16)):
        requests.append(make_any(chance, index, options, has_constraints))
        requests[-1].delay = chance.choice([0, 0, chance.uniform(0, 0.05)])
    operators = [random.Random(f"operator {options.seed} {number}")] if chance.random() < 0.3 else []
    return requests, operators


def play(alone, options, numbers, has_constraints):
    """Some traces at the same moment. Returns the kinds of their answers."""
    requests, operators = [], []
    for number in numbers:
        more_requests, more_operators = make_trace(options, number, has_constraints)
        requests += more_requests
        operators += more_operators
    answers = [to_answer(response) for response in trace_client.play(alone.server.port, requests, operators)]
    check_nothing_is_left(alone.server)
    return [check_answer(alone, request, answer) if answer else "left" for request, answer in zip(requests, answers)]


def play_traces(server, options, has_constraints):
    end = time.monotonic() + 60 * options.minutes if options.minutes else None
    counts, number, alone = collections.Counter(), options.first, Alone(server)
    while number < options.first + options.traces and (end is None or time.monotonic() < end):
        after = min(number + options.together, options.first + options.traces)
        try:
            counts.update(play(alone, options, range(number, after), has_constraints))
        except BaseException:
            print(f"traces {number} to {after - 1} of seed {options.seed}; repeat with --seed {options.seed} --first {number} "
                  f"--traces {after - number} and the same --together and --pool", flush=True)
            raise
        if after // 1000 > number // 1000:
            print(f"{after - options.first} traces, {counts.total()} requests", flush=True)
        number = after
        if not options.pool:
            alone.known.clear()
    good = counts["plain"] + counts["constrained"]
    assert good > (counts.total() - counts["left"]) / 2, counts
    print(f"{number - options.first} traces of seed {options.seed}, {counts.total()} requests {dict(sorted(counts.items()))}, "
          f"{server.metric('vllm:num_preemptions_total'):.0f} preemptions, "
          f"{server.metric('reprise:postponed_tokens_total'):.0f} postponed tokens: every answer is that of the request alone")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--clients", type=int, default=48)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--traces", type=int, help="play so many traces instead of a storm")
    parser.add_argument("--first", type=int, default=0, help="the number of the first trace")
    parser.add_argument("--minutes", type=float, help="play no further trace after this time")
    parser.add_argument("--pool", type=int, default=0, help="different requests of all traces; 0: new ones in each trace")
    parser.add_argument("--together", type=int, default=1, help="traces that are played at the same moment")
    options = parser.parse_args()
    serve_test.BINARY, serve_test.MODEL = options.binary, options.model
    serve_test.TIMEOUT = trace_client.DEADLINE
    num_blocks = STORM_BLOCKS
    if options.traces is not None:
        num_blocks = (POOL_BLOCKS if options.pool else TRACE_BLOCKS) + BLOCKS_OF_TRACE * (options.together - 1)
    max_model_len = POOL_MODEL_LEN if options.pool else 512
    server = serve_test.Server("--max-model-len", str(max_model_len), "--scheduling-policy", "priority", "--kv-cache-memory-bytes",
                               str(num_blocks * BLOCK_BYTES), "--dev", "--disable-uvicorn-access-log", *(PATIENCE if options.traces else []))
    try:
        status, _ = server.post("/v1/completions", serve_test.stories(**CONSTRAINTS[0][0]))
        has_constraints = status == 200  # the library for them is optional
        if options.traces is None:
            storm(server, options, has_constraints)
        else:
            play_traces(server, options, has_constraints)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
