"""A prefill and a decode server behind a proxy, driven by the client openai and by `bench serve`; and one server alone.

    pip install vllm-router openai        # the router is optional
    python deploy/disaggregated/try_pair.py PROGRAM MODEL [--input 512] [--output 32] [--num 24] [--load-format dummy]

Prints one object of JSON: for each arrangement the figures of `bench serve`, the graphs of the decode server, and what the
transfer of a prompt cost per token. Both servers have one thread and share a machine, so the figures say what the exchange
costs, and not what two machines would gain.
"""

import argparse
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path

import openai

PREFILL, DECODE, FRONT, ROUTER_METRICS, TRANSFER = 8401, 8402, 8400, 8403, 8404


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return answer.read().decode()


def wait_for(port, path):
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        try:
            return get(port, path)
        except OSError:
            time.sleep(0.2)
    raise SystemExit(f"nothing answers at port {port}")


def metric(port, name):
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", get(port, "/metrics"), re.M))


def steps_by_mode(port):
    steps = Counter()
    for mode, value in re.findall(r'^reprise:cudagraph_dispatch_total{.*runtime_mode="(\w+)".*} (\S+)$', get(port, "/metrics"), re.M):
        steps[mode] += float(value)
    return dict(steps)


class Arrangement:
    def __init__(self, options, connector, front):
        self.options, self.log, self.all = options, tempfile.TemporaryFile("w+"), []
        self.environment = {**os.environ, "REPRISE_KV_TRANSFER_SECRET": secrets.token_hex(32)}
        serve = [options.program, "serve", options.model, "--served-model-name", "model", "--num-threads", 1, "--quiet",
                 "--disable-uvicorn-access-log", *options.more]
        if connector is None:
            self.start(*serve, "--port", FRONT)
        else:
            role = {"kv_connector": connector, "kv_port": TRANSFER}
            self.start(*serve, "--port", PREFILL, "--kv-transfer-config", json.dumps({**role, "kv_role": "kv_producer"}))
            self.start(*serve, "--port", DECODE, "-cc.cudagraph_mode", "FULL_DECODE_ONLY", "--kv-transfer-config",
                       json.dumps({**role, "kv_role": "kv_consumer"}))
            wait_for(PREFILL, "/health")
            wait_for(DECODE, "/health")
            prefill, decode = f"http://127.0.0.1:{PREFILL}", f"http://127.0.0.1:{DECODE}"
            if front == "proxy":
                self.start(sys.executable, Path(__file__).with_name("proxy.py"), "--prefill", prefill, "--decode", decode,
                           "--port", FRONT)
            else:
                self.start("vllm-router", "--vllm-pd-disaggregation", "--prefill", prefill, "--decode", decode, "--host",
                           "127.0.0.1", "--port", FRONT, "--prometheus-port", ROUTER_METRICS)
        wait_for(FRONT, "/health")

    def start(self, *command):
        self.all.append(subprocess.Popen([str(word) for word in command], stdout=self.log, stderr=self.log, env=self.environment))

    def stop(self):
        for process in reversed(self.all):
            process.terminate()
        for process in self.all:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def openai_stream(self):
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{FRONT}/v1", api_key="none")
        chunks = client.completions.create(model="model", prompt="Once upon a time", max_tokens=30, temperature=0, stream=True)
        return "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)

    def bench(self):
        options = self.options
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [str(word) for word in (
                    options.program, "bench", "serve", "--port", FRONT, "--model", "model", "--tokenizer", options.model,
                    "--dataset-name", "random", "--random-input-len", options.input, "--random-output-len", options.output,
                    "--num-prompts", options.num, "--max-concurrency", 4, "--ignore-eos", "--save-result", "--result-dir", folder,
                    "--result-filename", "result.json")], check=True, stdout=self.log, stderr=self.log)
            result = json.loads(Path(folder, "result.json").read_text())
        return {key: round(result[key], 3) for key in ("completed", "output_throughput", "mean_ttft_ms", "mean_tpot_ms",
                                                       "p99_itl_ms") if key in result}


def run(options, connector, front):
    arrangement = Arrangement(options, connector, front)
    try:
        result = {"connector": connector, "front": front, "text": arrangement.openai_stream(), **arrangement.bench()}
        if connector:
            tokens = metric(DECODE, "reprise:kv_transfer_tokens_total")
            result |= {"decode_steps": steps_by_mode(DECODE), "tokens": tokens,
                       "bytes_per_token": metric(DECODE, "reprise:kv_transfer_bytes_total") / max(tokens, 1),
                       "us_per_token": 1e6 * metric(DECODE, "reprise:kv_transfer_seconds_total") / max(tokens, 1),
                       "failures": metric(DECODE, "reprise:kv_transfer_failures_total")}
        return result
    except BaseException:
        arrangement.log.seek(0)
        sys.stderr.write(arrangement.log.read()[-4000:])
        raise
    finally:
        arrangement.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--input", type=int, default=512)
    parser.add_argument("--output", type=int, default=32)
    parser.add_argument("--num", type=int, default=24)
    options, options.more = parser.parse_known_args()
    arrangements = [(None, None), ("TcpConnector", "proxy"), ("SharedMemoryConnector", "proxy")]
    if shutil.which("vllm-router"):
        arrangements.append(("TcpConnector", "vllm-router"))
    results = [run(options, *arrangement) for arrangement in arrangements]
    assert len({result["text"] for result in results}) == 1, [result["text"] for result in results]
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
