#!/usr/bin/env python3
"""A request with a seed gives one answer, whatever else the server does meanwhile.

    seeded_runs.py REPRISE_BINARY MODEL_FOLDER [--runs N] [--clients N]

Some requests with seeds are sent again and again, while other clients send random requests of all lengths, leave in the middle,
and empty the prefix cache. Each of them must have exactly one answer, with log-probabilities. A small run is part of ctest.
"""

import argparse
import json
import random
import socket
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "integration"))
import attacks
import serve_test

SEEDED = [{"prompt": prompt, "seed": seed, "temperature": temperature, "max_tokens": 40, "logprobs": 3, "ignore_eos": True}
          for seed, (prompt, temperature) in enumerate((("Once upon a time", 1), ("The sun was warm. " * 12, 0.7), ("A", 1.3)))]


def disturb(server, number, is_over):
    """Random requests; every third client leaves before its answer."""
    dice = random.Random(number)
    while not is_over.is_set():
        body = {"prompt": "word " * dice.randrange(1, 60) + str(dice.random()), "max_tokens": dice.randrange(1, 60),
                "temperature": dice.random(), "n": dice.randrange(1, 4), "ignore_eos": True}
        try:
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
                connection.sendall(attacks.post(attacks.COMPLETIONS, body))
                while dice.random() < 2 / 3 and connection.recv(65536):
                    pass
        except OSError:
            pass
        if dice.random() < 0.02:
            server.request("POST", "/reset_prefix_cache")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=12)
    options = parser.parse_args()
    serve_test.BINARY, serve_test.MODEL = options.binary, options.model
    # A small cache, so that requests are preempted and prefixes evicted.
    server = serve_test.Server("--dev", "--disable-uvicorn-access-log", "--max-model-len", "256",
                               "--num-gpu-blocks-override", "60")
    is_over = threading.Event()
    crowd = [threading.Thread(target=disturb, args=(server, number, is_over)) for number in range(options.clients)]
    for thread in crowd:
        thread.start()
    answers = [set() for _ in SEEDED]
    try:
        for _ in range(options.runs):
            for body, seen in zip(SEEDED, answers):
                status, answer = server.post(attacks.COMPLETIONS, body)
                assert status == 200, answer
                seen.add(json.dumps(answer["choices"]))
    finally:
        is_over.set()
        for thread in crowd:
            thread.join()
        preemptions = server.metric("vllm:num_preemptions_total")
        status = server.stop()
    distinct = [len(seen) for seen in answers]
    print(f"{options.runs} runs of {len(SEEDED)} requests beside {options.clients} clients, {preemptions:.0f} preemptions: "
          f"{distinct} distinct answers")
    assert status == 0 and distinct == [1] * len(SEEDED), (status, distinct)


if __name__ == "__main__":
    main()
