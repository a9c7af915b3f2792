"""vLLM's router in front of two servers that share no cache: once without and once with their KV events.

    pip install vllm-router openai
    python deploy/router/try_router.py PROGRAM MODEL [--rounds 3]

The load is `bench serve --dataset-name prefix_repetition`; each cache holds about half of the prefixes. First the client openai
streams an answer through the router. Prints one object of JSON. The policies take turns.
"""

import argparse
import json
import re
import statistics
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import openai

ROUTER, METRICS = 8300, 8301
SERVERS = {8201: 5601, 8202: 5602}
# 12 prefixes of 16 blocks are 192 blocks; a cache has 160, of which running requests use some.
NUM_PREFIXES, PREFIX, SUFFIX, OUTPUT, BLOCKS = 12, 256, 64, 16, 160


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return answer.read().decode()


def wait_for(port, path="/health"):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            return get(port, path)
        except OSError:
            time.sleep(0.2)
    raise SystemExit(f"nothing answers at port {port}")


def metric(port, name):
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", get(port, "/metrics"), re.M))


class Processes:
    def __init__(self, program, model, policy):
        self.log = tempfile.TemporaryFile("w+")
        self.all = [self.start(
            program, "serve", model, "--port", port, "--served-model-name", "tiny", "--num-threads", 1, "--quiet",
            "--num-gpu-blocks-override", BLOCKS, "--max-num-seqs", 4, "--disable-uvicorn-access-log", "--kv-events-config",
            json.dumps({"enable_kv_cache_events": True, "endpoint": f"tcp://*:{events}"})) for port, events in SERVERS.items()]
        for port in SERVERS:
            wait_for(port)
        urls = [f"http://127.0.0.1:{port}" for port in SERVERS]
        sources = [word for port, events in SERVERS.items()
                   for word in ("--kv-event-source", f"http://127.0.0.1:{port}=tcp://127.0.0.1:{events}")]
        self.all.append(self.start(
            "vllm-router", "--host", "127.0.0.1", "--port", ROUTER, "--prometheus-port", METRICS, "--worker-urls", *urls,
            "--policy", policy, "--log-level", "debug", *([*sources, "--kv-event-model", "tiny"] if policy == "kv_aware" else [])))
        wait_for(ROUTER, "/v1/models")

    def start(self, *command):
        return subprocess.Popen([str(word) for word in command], stdout=self.log, stderr=self.log)

    def text(self):
        self.log.seek(0)
        return self.log.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.all):
            process.terminate()
            process.wait(60)


def stream_an_answer():
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{ROUTER}/v1", api_key="none", max_retries=0)
    parts = list(client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "What is 3 + 4?"}], stream=True, max_tokens=30, temperature=0))
    return "".join(part.choices[0].delta.content or "" for part in parts if part.choices)


def measure(program, model, policy):
    with Processes(program, model, policy) as processes, tempfile.TemporaryDirectory() as folder:
        text = stream_an_answer()
        before = {name: sum(metric(port, f"vllm:prefix_cache_{name}_total") for port in SERVERS) for name in ("queries", "hits")}
        subprocess.run(
            [program, "bench", "serve", "--base-url", f"http://127.0.0.1:{ROUTER}", "--model", "tiny", "--tokenizer", model,
             "--dataset-name", "prefix_repetition", "--prefix-repetition-prefix-len", str(PREFIX),
             "--prefix-repetition-suffix-len", str(SUFFIX), "--prefix-repetition-num-prefixes", str(NUM_PREFIXES),
             "--prefix-repetition-output-len", str(OUTPUT), "--num-prompts", "240", "--max-concurrency", "4", "--seed", "1",
             "--save-result", "--result-dir", folder, "--result-filename", "result.json"],
            check=True, capture_output=True)
        result = json.loads(Path(folder, "result.json").read_text())
        after = {name: sum(metric(port, f"vllm:prefix_cache_{name}_total") for port in SERVERS) for name in ("queries", "hits")}
        credited = [int(tokens) for tokens in re.findall(r"credited_prefix_tokens\x1b\[0m\x1b\[2m=\x1b\[0m(\d+)|credited_prefix_tokens=(\d+)",
                                                        processes.text()) for tokens in tokens if tokens]
        queries = after["queries"] - before["queries"]
        return {"policy": policy, "answer": text, "completed": result["completed"], "failed": result.get("failed", 0),
                "share of prompt tokens cached": round((after["hits"] - before["hits"]) / queries, 3),
                "tokens of prefixes that the router expected": sum(credited), "tokens found": after["hits"] - before["hits"],
                "mean TTFT ms": round(result["mean_ttft_ms"], 2), "requests per second": round(result["request_throughput"], 1)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rounds = [measure(arguments.program, arguments.model, policy)
              for _ in range(arguments.rounds) for policy in ("round_robin", "kv_aware")]
    medians = {policy: {name: statistics.median(r[name] for r in rounds if r["policy"] == policy)
                        for name in ("share of prompt tokens cached", "mean TTFT ms", "requests per second")}
               for policy in ("round_robin", "kv_aware")}
    print(json.dumps({"medians": medians, "rounds": rounds}, indent=1))


if __name__ == "__main__":
    main()
