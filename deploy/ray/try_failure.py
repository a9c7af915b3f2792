"""Two nodes of a local Ray cluster, a replica on each, and a load; one of the servers is killed in the middle.

    python deploy/ray/try_failure.py PROGRAM MODEL [--seconds 30] [--clients 8]

Prints one object of JSON: what became of each request, and how long it took until two replicas served again. Needs ray[serve]
and openai (PyPI).
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

# On a busy machine Ray's own processes take long to start. Read when ray is imported.
os.environ.setdefault("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "200")
os.environ.setdefault("RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S", "200")

import openai
import ray
from ray import serve
from ray.cluster_utils import Cluster

sys.path.insert(0, str(Path(__file__).resolve().parent))
import reprise_serve

PORT = 8123
NUM_TOKENS = 200


class Load:
    """Clients that send one streamed request after the other until the end, with pauses of a person."""

    def __init__(self, num_clients):
        self.num_clients = num_clients
        self.requests = []
        self.is_over = False

    async def run(self):
        client = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{PORT}/v1", api_key="none", max_retries=0)
        await asyncio.gather(*(self.one_client(client, i) for i in range(self.num_clients)))

    async def one_client(self, client, index):
        while not self.is_over:
            request = {"began": time.monotonic(), "tokens": 0, "error": None}
            self.requests.append(request)
            try:
                stream = await client.completions.create(
                    model="tiny", prompt=f"Client {index}: once upon a time", max_tokens=NUM_TOKENS, stream=True, temperature=0,
                    extra_body={"ignore_eos": True})
                async for part in stream:
                    request["tokens"] += bool(part.choices and part.choices[0].text)
                    request["last"] = time.monotonic()
                    reason = part.choices[0].finish_reason if part.choices else None
                    request["done"] = request.get("done") or reason == "length"
                if not request.get("done"):
                    request["error"] = "the stream broke off"
            except (openai.OpenAIError, OSError) as error:
                request["error"] = f"{type(error).__name__}: {str(error)[:120]}"
            except Exception as error:  # a client library may pass on errors of its transport
                request["error"] = f"{type(error).__name__}: {str(error)[:120]}"
            request["ended"] = time.monotonic()
            await asyncio.sleep(0.2)


def running_replicas():
    deployment = serve.status().applications["reprise"].deployments["Replica"]
    return deployment.replica_states.get("RUNNING", 0)


async def process_ids(handle):
    """The servers, asked for until each of two replicas has answered."""
    found = set()
    while len(found) < 2:
        found.add(await handle.process_id.remote())
    return sorted(found)


async def measure(arguments):
    handle = serve.get_app_handle("reprise")
    while running_replicas() < 2:
        await asyncio.sleep(0.1)
    servers = await process_ids(handle)
    load = Load(arguments.clients)
    running = asyncio.create_task(load.run())
    await asyncio.sleep(arguments.seconds / 3)
    killed = time.monotonic()
    os.kill(servers[0], signal.SIGKILL)
    while running_replicas() == 2 and time.monotonic() - killed < 60:
        await asyncio.sleep(0.02)
    noticed = time.monotonic()
    while running_replicas() < 2:
        await asyncio.sleep(0.02)
    recovered = time.monotonic()
    await asyncio.sleep(arguments.seconds / 3)
    load.is_over = True
    await running
    failed = [request for request in load.requests if request["error"]]
    in_flight = [request for request in load.requests if request["began"] <= killed < request["ended"]]
    later = sorted(request["ended"] for request in load.requests if request["began"] > killed and not request["error"])
    return {
        "clients": arguments.clients,
        "requests": len(load.requests),
        "complete": sum(not request["error"] for request in load.requests),
        "in flight on both servers when one was killed": len(in_flight),
        "failed, of these": sum(bool(request["error"]) for request in in_flight),
        "failed, sent before that and ended before": sum(request["ended"] <= killed for request in failed),
        "failed, sent afterwards": sum(request["began"] > killed for request in failed),
        "seconds until Ray Serve noticed": round(noticed - killed, 2),
        "seconds until two replicas were running": round(recovered - killed, 2),
        "seconds until the first request sent afterwards was complete": round(later[0] - killed, 2) if later else None,
        "errors": sorted({request["error"] for request in failed}),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--clients", type=int, default=8)
    arguments = parser.parse_args()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=2)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False)
        # A proxy on the head node only: both nodes are on one machine and would want one port.
        serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": PORT})
        application = reprise_serve.build({
            "program": os.path.abspath(arguments.program), "model": os.path.abspath(arguments.model),
            "options": "--served-model-name tiny --num-threads 1 --disable-uvicorn-access-log",
            "min_replicas": 2, "max_replicas": 2, "max_replicas_per_node": 1, "num_cpus": 1})
        serve.run(application, name="reprise")
        nodes = {node["NodeID"][:8]: node["Alive"] for node in ray.nodes()}
        result = asyncio.run(measure(arguments))
        print(json.dumps({"nodes": len(nodes), "ray": ray.__version__, **result}, indent=1))
        serve.shutdown()
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main()
