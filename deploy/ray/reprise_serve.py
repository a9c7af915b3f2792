"""Replicas of `reprise serve` under Ray Serve.

    pip install "ray[serve]"
    serve run --app-dir deploy/ray reprise_serve:build model=/path/to/model program=/opt/reprise/bin/reprise

Each replica is an actor that starts one server on a Unix socket and forwards every request to it, streams too. If the server
ends, the actor ends, and Ray Serve starts another one. Arguments of `build`:

    model, program        a folder, and the program; both on every node
    options               more options of `reprise serve`, as one text; default: none
    min_replicas, max_replicas, target_ongoing_requests
                          Ray Serve adds replicas while the requests per replica, running and waiting, are more than the target
    num_cpus              cores per replica
    max_replicas_per_node
"""

import ctypes
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import aiohttp
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse

# Headers that belong to one connection, not to the request.
PER_CONNECTION = {"connection", "content-length", "date", "host", "keep-alive", "server", "transfer-encoding", "upgrade"}
SHUTDOWN_SECONDS = 30
PR_SET_PDEATHSIG = 1
# The server ends requests that take too long itself.
NO_LIMIT = aiohttp.ClientTimeout(total=None)


@serve.deployment(
    health_check_period_s=2,
    health_check_timeout_s=10,
    graceful_shutdown_timeout_s=SHUTDOWN_SECONDS + 10,
)
class Replica:
    def __init__(self, model: str, program: str, options: str):
        self.folder = tempfile.mkdtemp(prefix="reprise-")
        self.socket = os.path.join(self.folder, "server.sock")
        command = [program, "serve", model, "--uds", self.socket, "--shutdown-timeout", str(SHUTDOWN_SECONDS)]
        libc = ctypes.CDLL(None)
        self.server = subprocess.Popen(
            [*command, *shlex.split(options)],
            # If the actor is killed, the server gets SIGTERM.
            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM))
        self.is_ending = False
        self.session = None
        # The socket appears when the model is loaded.
        while not os.path.exists(self.socket):
            if self.server.poll() is not None:
                raise RuntimeError(f"{shlex.join(command)} ended with {self.server.returncode}; its words are in the log of this actor")
            time.sleep(0.02)
        threading.Thread(target=self._end_with_the_server, daemon=True).start()

    def _end_with_the_server(self):
        status = self.server.wait()
        if not self.is_ending:
            # Requests that this replica has accepted are lost either way; this lets Ray Serve notice at once.
            print(f"reprise ended with {status}; the replica ends too", flush=True)
            os._exit(1)

    def _client(self):
        if self.session is None:
            connector = aiohttp.UnixConnector(self.socket, limit=0)
            self.session = aiohttp.ClientSession("http://localhost", connector=connector, timeout=NO_LIMIT)
        return self.session

    async def check_health(self):
        """Ray Serve calls this; a replica that fails it is replaced."""
        async with self._client().get("/health") as answer:
            if answer.status != 200:
                raise RuntimeError(f"/health answers {answer.status}")

    async def process_id(self) -> int:
        return self.server.pid

    async def __call__(self, request: Request):
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        headers = {name: value for name, value in request.headers.items() if name.lower() not in PER_CONNECTION}
        try:
            answer = await self._client().request(request.method, path, data=await request.body(), headers=headers)
        except aiohttp.ClientError as error:
            # Nothing was sent to the client yet: it may try again.
            message = {"error": {"message": f"the replica has failed: {error}", "type": "ServiceUnavailable", "code": 503}}
            return JSONResponse(message, status_code=503, headers={"Retry-After": "1"})

        async def body():
            try:
                async for part in answer.content.iter_any():
                    yield part
            finally:
                # If the client has left, this ends the request in the server too.
                answer.close()

        headers = {name: value for name, value in answer.headers.items() if name.lower() not in PER_CONNECTION}
        return StreamingResponse(body(), answer.status, headers)

    async def __del__(self):
        """Ray Serve calls this after the replica's last request."""
        self.is_ending = True
        if self.session is not None:
            await self.session.close()
        self.server.send_signal(signal.SIGTERM)
        try:
            self.server.wait(SHUTDOWN_SECONDS + 5)
        except subprocess.TimeoutExpired:
            self.server.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def build(arguments: dict):
    """The application, from the arguments of `serve run`."""
    given = dict(arguments)
    model = given.pop("model")
    program, options = given.pop("program", "reprise"), given.pop("options", "")
    target = float(given.pop("target_ongoing_requests", 16))
    settings = {
        "autoscaling_config": {
            "min_replicas": int(given.pop("min_replicas", 1)),
            "max_replicas": int(given.pop("max_replicas", 4)),
            "target_ongoing_requests": target,
        },
        # More requests wait in Ray Serve, which gives them to the replica that is free first.
        "max_ongoing_requests": max(1, round(4 * target)),
        "ray_actor_options": {"num_cpus": float(given.pop("num_cpus", 1))},
    }
    if "max_replicas_per_node" in given:
        settings["max_replicas_per_node"] = int(given.pop("max_replicas_per_node"))
    if given:
        raise ValueError(f"unknown arguments: {sorted(given)}")
    return Replica.options(**settings).bind(model, program, options)
