#!/usr/bin/env python3
"""A mixed load is logged by servers with different options, and every answer is repeated alone.

    replay_load.py REPRISE_BINARY MODEL_FOLDER [--tokens N] [--clients N] [--seed N] [--batches] [--keep FILE]

The load has chunks of prompts, prefix hits, preemption, adapters, drafts, constraints, stop strings, seeds and none, and
clients that leave. The first server replays graphs at level 3 with adapters and drafts out of the text, the second runs
eagerly at level 0 with a draft model and schedules ahead where it can. `reprise replay` then repeats the answers in the
other mode, one request at a time (--batches: in batches). No bit may differ. A small run is part of ctest.
"""

import argparse
import json
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "integration"))
import attacks
import serve_test

SERVERS = (
    ("FULL_AND_PIECEWISE", 3, {"method": "ngram", "num_speculative_tokens": 3}, True),
    ("NONE", 0, {"method": "draft_model", "num_speculative_tokens": 2}, False),
)
WORDS = "the fox boat apples river small Tom has 3 7 once upon a time sun was warm and".split()
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "name": {"type": "string", "maxLength": 20}}}


def write_adapter(folder, config, seed):
    """A PEFT adapter of the model, with random matrices."""
    dice = random.Random(seed)
    hidden, heads = config["hidden_size"], config["num_attention_heads"] * config["head_dim"]
    tensors = {}
    for layer in range(config["num_hidden_layers"]):
        name = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        tensors[f"{name}.lora_A.weight"], tensors[f"{name}.lora_B.weight"] = (4, hidden), (heads, 4)
    header, data = {}, b""
    for name, shape in tensors.items():
        values = [dice.gauss(0, 0.2) for _ in range(shape[0] * shape[1])]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": 4, "lora_alpha": 2, "bias": "none", "target_modules": ["q_proj"]}))


def request(dice, models):
    """The body of a random request."""
    stem = WORDS * dice.choice((0, 0, 1, 2, 4))
    body = {"model": dice.choice(models), "prompt": " ".join(stem + dice.choices(WORDS, k=dice.randrange(1, 30))),
            "max_tokens": dice.randrange(1, 120), "temperature": dice.choice((0, 0.7, 1.0, 1.5)),
            "n": dice.choice((1, 1, 1, 3))}
    extras = ({"seed": dice.randrange(1000)}, {"top_p": 0.8, "top_k": 30}, {"min_p": 0.05}, {"stop": ["e ", "."]},
              {"repetition_penalty": 1.2}, {"presence_penalty": 0.5, "frequency_penalty": -0.3}, {"ignore_eos": True},
              {"ignore_eos": True}, {"logit_bias": {"300": 4, "301": -50}}, {"logprobs": 3}, {"bad_words": ["the"]},
              {"min_tokens": 5, "max_tokens": 60}, {"structured_outputs": {"regex": "[a-z ]{3,60}[.]"}},
              {"structured_outputs": {"json": SCHEMA}}, {"structured_outputs": {"choice": ["yes", "no", "a boat"]}})
    for extra in dice.sample(extras, dice.randrange(0, 4)):
        body.update(extra)
    return body


def play(server, seed, models, is_over, counts):
    dice = random.Random(seed)
    while not is_over.is_set():
        body = request(dice, models)
        if dice.random() < 0.1:  # leaves in the middle
            with socket.create_connection(("127.0.0.1", server.port), timeout=serve_test.TIMEOUT) as connection:
                connection.sendall(attacks.post(attacks.COMPLETIONS, {**body, "stream": True}))
                connection.recv(4000)
            continue
        status, answer = server.post("/v1/completions", body)
        assert status == 200, (status, answer, body)
        counts.append(answer["usage"]["completion_tokens"])


def load(server, options, models):
    is_over, counts = threading.Event(), []
    clients = [threading.Thread(target=play, args=(server, options.seed * 1000 + i, models, is_over, counts))
               for i in range(options.clients)]
    for client in clients:
        client.start()
    while sum(counts) < options.tokens / len(SERVERS) and all(client.is_alive() for client in clients):
        time.sleep(0.1)
    is_over.set()
    for client in clients:
        client.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batches", action="store_true")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    serve_test.BINARY, serve_test.MODEL = options.binary, options.model
    config = json.loads((Path(options.model) / "config.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = options.keep or folder / "answers.log"
        adapters = []
        for i in range(3):
            write_adapter(folder / f"adapter{i}", config, i)
            adapters.append(f"adapter{i}={folder / f'adapter{i}'}")
        began, num_preempted = time.monotonic(), 0
        for mode, level, drafts, has_adapters in SERVERS:
            if drafts["method"] == "draft_model":
                drafts = {**drafts, "model": options.model}
            arguments = ["--replay-log", str(log), "--max-model-len", "512", "--num-gpu-blocks-override", "100",
                         "--max-num-batched-tokens", "64", "--disable-uvicorn-access-log",
                         "--compilation-config", json.dumps({"cudagraph_mode": mode, "mode": level}),
                         "--speculative-config", json.dumps(drafts)]
            if has_adapters:
                arguments += ["--enable-lora", "--max-loras", "2", "--max-cpu-loras", "3", "--lora-modules", *adapters]
            server = serve_test.Server(*arguments)
            try:
                load(server, options, [serve_test.NAME, *(f"adapter{i}" for i in range(3) if has_adapters)])
                num_preempted += server.metric("vllm:num_preemptions_total")
                assert server.metric("reprise:replay_log_dropped_requests_total") == 0
            finally:
                server.stop()
        loaded = time.monotonic() - began
        records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        answers = [record for record in records if record["kind"] == "request"]
        tokens = sum(len(answer["tokens"]) for answer in answers)
        prompts = sum(len(answer["prompt"]) for answer in answers)
        print(f"logged {len(answers)} answers with {tokens} tokens in {loaded:.0f} s; {num_preempted:.0f} preemptions, "
              f"{sum(answer['cached_tokens'] > 0 for answer in answers)} with cached prefixes, "
              f"{sum('adapter' in answer for answer in answers)} with adapters, "
              f"{sum('constraint' in answer for answer in answers)} with constraints, "
              f"{sum(answer['finish_reason'] == 'abort' for answer in answers)} aborted; "
              f"{log.stat().st_size / (tokens + prompts):.1f} bytes a token", flush=True)
        began = time.monotonic()
        # The mode differs from that of the servers, and there is room for all requests, so nothing is preempted.
        command = [options.binary, "replay", log, "-cc.cudagraph_mode=FULL", "--num-gpu-blocks-override", "2000",
                   *([] if options.batches else ["--max-num-seqs", "1"])]
        run = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        print(f"{run.stdout.strip()}\nrepeated in {time.monotonic() - began:.0f} s, "
              f"{'in batches' if options.batches else 'each request alone'}")
        if run.returncode != 0:
            sys.exit(f"exit code {run.returncode}\n{run.stderr}")


if __name__ == "__main__":
    main()
