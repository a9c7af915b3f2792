#!/usr/bin/env python3
"""A chat with a model that has recurrent layers, with and without prefix caching.

Starts `reprise serve` with made-up weights twice, sends the turns of a chat one after the other, and alternates between the
two servers. Prints the median time to the first token of each turn, and the processor time that the server spent on the turn up to
its last token. With prefix caching a turn computes only what is new.
"""

import argparse
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Configurations with the layers of Falcon-H1-0.5B and of Granite 4 Micro, but fewer layers.
MODELS = {
    "Falcon-H1-0.5B, 8 of 36 layers": dict(
        architectures=["FalconH1ForCausalLM"], model_type="falcon_h1", hidden_size=1024, intermediate_size=2048, num_hidden_layers=8,
        num_attention_heads=8, num_key_value_heads=2, head_dim=64, mamba_d_ssm=1536, mamba_n_heads=24, mamba_d_head=64,
        mamba_n_groups=1, mamba_d_state=128, mamba_d_conv=4),
    "Qwen3-Next's delta net, 4 layers": dict(
        architectures=["Qwen3_5ForCausalLM"], model_type="qwen3_5_text", hidden_size=1024, intermediate_size=3072, num_hidden_layers=4,
        num_attention_heads=8, num_key_value_heads=2, head_dim=128, full_attention_interval=4, linear_conv_kernel_dim=4,
        linear_key_head_dim=128, linear_value_head_dim=128, linear_num_key_heads=8, linear_num_value_heads=16),
}
QUESTION, ANSWER = 60, 40


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    def __init__(self, program, model, more):
        self.port = free_port()
        command = [program, "serve", ROOT / "models/reprise-tiny", "--load-format", "dummy", "--hf-overrides",
                   json.dumps(dict(model, max_position_embeddings=4096)), "--max-model-len", 4096, "--max-num-seqs", 4,
                   "--num-threads", 1, "--served-model-name", "model", "--port", self.port, *more]
        self.process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health")
                return
            except OSError:
                assert self.process.poll() is None, "the server has ended"
                time.sleep(0.1)

    def cpu_seconds(self):
        user, system = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def ask(self, tokens):
        body = json.dumps(dict(model="model", prompt=tokens, max_tokens=ANSWER, temperature=0, ignore_eos=True, stream=True,
                               return_token_ids=True))
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/completions", body.encode(),
                                         {"Content-Type": "application/json"})
        cpu, start, first, answer = self.cpu_seconds(), time.monotonic(), None, []
        with urllib.request.urlopen(request) as response:
            for line in response:
                if not line.startswith(b"data: {"):
                    continue
                first = first or time.monotonic() - start
                for choice in json.loads(line[6:])["choices"]:
                    answer += choice.get("token_ids") or []
        return first, self.cpu_seconds() - cpu, answer

    def stop(self):
        self.process.terminate()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=ROOT / "build/release/bin/reprise")
    parser.add_argument("--chats", type=int, default=3)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--first", type=int, default=600, help="tokens of the first prompt")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS, metavar="NAME")
    options = parser.parse_args()
    for name in options.models:
        model = MODELS[name]
        servers = {"off": Server(options.program, model, ["--no-enable-prefix-caching"]), "on": Server(options.program, model, [])}
        results = {key: [[] for _ in range(options.turns)] for key in servers}
        for chat in range(options.chats):
            draw = random.Random(chat)
            text = [draw.randrange(100, 1000) for _ in range(options.first)]
            for turn in range(options.turns):
                answers = set()
                for key, server in servers.items():
                    first, cpu, answer = server.ask(text)
                    results[key][turn].append((first, cpu))
                    answers.add(tuple(answer))
                assert len(answers) == 1, "the answers differ"
                text += [*answers.pop(), *(draw.randrange(100, 1000) for _ in range(QUESTION))]
        print(f"\n{name}, {options.chats} chats\n\n| turn | prompt | first token without, ms | with, ms | ratio | CPU of the turn without, ms | "
              "with, ms | ratio |\n|---|---|---|---|---|---|---|---|")
        for turn in range(options.turns):
            (off_first, off_cpu), (on_first, on_cpu) = (
                [1000 * statistics.median(column) for column in zip(*results[key][turn])] for key in ("off", "on"))
            print(f"| {turn + 1} | {options.first + turn * (QUESTION + ANSWER)} | {off_first:.0f} | {on_first:.0f} | {off_first / on_first:.2f} | "
                  f"{off_cpu:.0f} | {on_cpu:.0f} | {off_cpu / on_cpu:.2f} |", flush=True)
        for server in servers.values():
            server.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        os.environ["REPRISE_CACHE_ROOT"] = cache
        main()
