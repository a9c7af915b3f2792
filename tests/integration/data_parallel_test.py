#!/usr/bin/env python3
"""Several engines behind one server or command, as real processes; ranks over TCP; launchers; lost ranks.

    data_parallel_test.py REPRISE_BINARY MODEL_FOLDER [--matrix]

Uses only Python's standard library. MPI is needed for a part of it only, which is left out where it is missing. With
--matrix, ranks are killed, stopped and delayed in all states that a rank can be in; that takes minutes.
"""

import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

from in_turn import every_time, load_tests, part_of  # noqa: F401
from ranks_test import MODES, children_of, is_running

BINARY = MODEL = None
COMMON = ["--dtype", "float32", "--num-threads", "1", "--kv-cache-memory-bytes", "16M", "--device", "cpu"]
PROMPTS = ["Once upon a time there was a", "The little dog", "One day, Ben found", "Lily", "It was a sunny day", "Mom"]
MODES_AND_LEVELS = [(mode, level) for mode in MODES for level in ("0", "3")]
TIMEOUT = 180  # for things that take a second on an idle machine
LOST_SECONDS = 8  # --distributed-timeout-seconds of tests that lose a rank
NAMED_SECONDS = 30  # the time within which a lost rank must be named and all processes must end
RUNS_MATRIX = False


def has_mpi():
    return os.path.exists(os.path.join(os.path.dirname(BINARY), "reprise_mpi.so")) and shutil.which("mpirun")


def backends():
    return ["mp", "mpi"] if has_mpi() else ["mp"]


def generate_command(*options):
    prompts = [word for prompt in PROMPTS for word in ("-p", prompt)]
    return [BINARY, "generate", MODEL, *prompts, "--max-tokens", "20", "--json", *COMMON, *options]


def generate(*options, expect=0, environment=None):
    """The tokens of each answer, or with another expected exit code what stderr says."""
    done = subprocess.run(
        generate_command(*options), capture_output=True, text=True, timeout=TIMEOUT, env={**os.environ, **(environment or {})}
    )
    if done.returncode != expect:
        raise AssertionError(f"exit code {done.returncode}, expected {expect}:\n{done.stderr}")
    return tokens_of(done.stdout) if expect == 0 else done.stderr


def tokens_of(text):
    return [output["token_ids"] for output in json.loads(text)["outputs"]]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def write_expert_model(folder):
    """A model with experts and made-up weights (--load-format dummy), with the tokenizer of MODEL."""
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(MODEL, file), folder)
    with open(os.path.join(MODEL, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config |= {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 5, "num_experts_per_tok": 2,
        "moe_intermediate_size": 64, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [],
    }
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)


class Tokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Answers are sampled, so that mistakes in seeds are visible.
        cls.sampling = ["--temperature", "0.9", "--seed", "3"]
        cls.expected = generate(*cls.sampling)

    def test_several_engines_give_the_tokens_of_one(self):
        for backend in backends():
            for sizes in (["-dp", "2"], ["-dp", "3", "--data-parallel-lockstep"], ["-dp", "2", "-tp", "2"]):
                with self.subTest(backend=backend, sizes=sizes):
                    options = ["--distributed-executor-backend", backend, *sizes]
                    self.assertEqual(generate(*self.sampling, *options), self.expected)

    @every_time
    def test_every_mode_and_level_gives_the_tokens_of_one_engine_in_lockstep(self):
        for mode, level in part_of(MODES_AND_LEVELS):
            with self.subTest(mode=mode, level=level):
                options = ["-dp", "2", "--data-parallel-lockstep", "--distributed-executor-backend", "mp"]
                more = ["--level", level, "-cc.cudagraph_mode", mode]
                self.assertEqual(generate(*self.sampling, *options, *more), self.expected)

    def test_ranks_that_divide_layers_or_the_model_over_tcp(self):
        for sizes in (["-tp", "2"], ["-tp", "4"], ["-pp", "2"], ["-pp", "3"], ["-pp", "2", "-dp", "2"],
                      ["-tp", "2", "-pp", "2"], ["-tp", "2", "-pp", "3"]):
            with self.subTest(sizes=sizes):
                tokens = generate(*self.sampling, *sizes, "--distributed-executor-backend", "mp")
                self.assertEqual(tokens, self.expected)

    @every_time
    def test_divided_layers_give_the_tokens_of_one_rank_in_every_mode_and_level(self):
        for mode, level in part_of(MODES_AND_LEVELS):
            with self.subTest(mode=mode, level=level):
                options = ["--pipeline-parallel-size", "2", "--level", level, "-cc.cudagraph_mode", mode]
                self.assertEqual(generate(*self.sampling, *options), self.expected)
        # This also holds in the model's type, because a value plus zeros is the value.
        options = ["--temperature", "0", "--dtype", "bfloat16"]
        self.assertEqual(generate(*options, "-pp", "2"), generate(*options))


class Launchers(unittest.TestCase):
    """Ranks that another program starts, with the variables of torchrun or SLURM."""

    def launch(self, variables, size=2, sizes=("-tp", "2")):
        """Each rank's exit code, stdout and stderr."""
        processes = []
        for rank in range(size):
            environment = {**os.environ, **{name: value.format(rank=rank) for name, value in variables.items()}}
            processes.append(
                subprocess.Popen(
                    generate_command("--temperature", "0", *sizes),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    env=environment,
                )
            )
        outputs = [process.communicate(timeout=TIMEOUT) for process in processes]
        return [(process.returncode, *output) for process, output in zip(processes, outputs)]

    def test_torchrun_and_slurm_variables_start_ranks(self):
        expected = generate("--temperature", "0")
        for sizes in (("-tp", "2"), ("-dp", "2")):
            for variables in (
                {"RANK": "{rank}", "WORLD_SIZE": "2", "LOCAL_RANK": "{rank}", "MASTER_ADDR": "127.0.0.1"},
                {"SLURM_PROCID": "{rank}", "SLURM_NTASKS": "2", "SLURM_LOCALID": "{rank}", "MASTER_ADDR": "localhost"},
            ):
                with self.subTest(sizes=sizes, variables=variables):
                    results = self.launch({**variables, "MASTER_PORT": str(free_port())}, sizes=sizes)
                    self.assertEqual([code for code, _, _ in results], [0, 0], results)
                    self.assertEqual(tokens_of(results[0][1]), expected)
                    self.assertEqual(results[1][1], "")

    def test_another_number_of_ranks_is_named(self):
        results = self.launch({"RANK": "{rank}", "WORLD_SIZE": "2"}, sizes=("-tp", "4"))
        self.assertEqual([code for code, _, _ in results], [2, 2])
        self.assertIn("RANK and WORLD_SIZE started 2 ranks, and --tensor-parallel-size 4 needs 4", results[0][2])

    def test_an_address_of_another_machine_is_named(self):
        variables = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "29511"}
        results = self.launch(variables, size=1)
        self.assertEqual(results[0][0], 1)
        self.assertIn("rank 0 cannot listen at 192.0.2.1:29511", results[0][2])

    def test_one_rank_ignores_the_variables(self):
        self.assertEqual(len(generate("--temperature", "0", environment={"RANK": "1", "WORLD_SIZE": "4"})), len(PROMPTS))

    def test_without_a_launcher(self):
        self.assertIn(
            "external_launcher: --tensor-parallel-size 2 needs 2 ranks",
            generate("-tp", "2", "--distributed-executor-backend", "external_launcher", expect=2),
        )
        self.assertIn("uni has one", generate("-dp", "2", "--distributed-executor-backend", "uni", expect=2))


class Refusals(unittest.TestCase):
    def test_what_is_not_ready_is_refused_by_name(self):
        for options, sentence in [
            (["-dp", "2", "--enable-lora"], "--enable-lora: is not supported with --data-parallel-size"),
            (["--data-parallel-lockstep"], "--data-parallel-lockstep: there is one engine"),
            (["-dp", "0"], "--data-parallel-size: 0 is not a positive number"),
            (["-dp", "33", "-tp", "2"], "at most 64 ranks can work together"),
            (["-pp", "7"], "--pipeline-parallel-size: 7 ranks are more than the 6 layers"),
            (["-pp", "2", "-tp", "3"], "--tensor-parallel-size: 3 ranks cannot divide 4 attention heads"),
            (["-tp", "2", "--enable-expert-parallel"], "--enable-expert-parallel: LlamaForCausalLM has no experts"),
            (
                ["-tp", "2", "-dp", "2", "--enable-expert-parallel"],
                "--enable-expert-parallel: divides experts among engines (--data-parallel-size) of one rank each",
            ),
            (
                ["-dp", "2", "--enable-expert-parallel", "--async-scheduling"],
                "--async-scheduling: is not supported with --enable-expert-parallel and --data-parallel-size",
            ),
            (["-tp", "2", "--enable-eplb"], "--enable-eplb"),
            (["-tp", "2", "--eplb-config", "{}"], "--eplb-config"),
            (["-tp", "2", "--expert-placement-strategy", "round_robin"], "--expert-placement-strategy"),
            (
                ["-dp", "2", "--data-parallel-lockstep", "--async-scheduling"],
                "--async-scheduling: is not supported with --data-parallel-lockstep",
            ),
        ]:
            with self.subTest(options=options):
                self.assertIn(sentence, generate(*options, expect=2))


class Server:
    """`reprise serve` whose ranks are processes over TCP."""

    def __init__(self, *options, wait=True, model=None):
        self.log = tempfile.TemporaryFile()
        command = [BINARY, "serve", model or MODEL, "--port", "0", "--served-model-name", "tiny"]
        command += ["--distributed-executor-backend", "mp", *COMMON, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.log)
        self.ranks = []
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self):
        self.wait_for(lambda: "Application startup complete." in self.text())
        self.url = "http://" + self.text().split("API server on http://")[1].split()[0]
        self.ranks = children_of(self.process.pid)

    def text(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode("utf-8", "replace")

    def wait_for(self, condition, seconds=TIMEOUT):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or self.process.poll() not in (None, 0):
                raise AssertionError("waited in vain; the log:\n" + self.text())
            time.sleep(0.02)

    def complete(self, prompt="Once upon a time", max_tokens=60, **more):
        body = {"model": "tiny", "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, **more}
        request = urllib.request.Request(
            self.url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            return json.load(response)["choices"][0]["text"]

    def metric(self, name, engine):
        with urllib.request.urlopen(self.url + "/metrics", timeout=TIMEOUT) as response:
            for line in response.read().decode().splitlines():
                if line.startswith(f'{name}{{engine="{engine}"'):
                    return float(line.rsplit(" ", 1)[1])
        raise AssertionError(f"{name} of engine {engine} is missing")

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        for pid in self.ranks:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()


class Serving(unittest.TestCase):
    def test_requests_go_to_all_engines_and_each_has_its_metrics(self):
        for lockstep in ([], ["--data-parallel-lockstep"]):
            with self.subTest(lockstep=lockstep):
                server = Server("-dp", "2", *lockstep)
                try:
                    expected = {prompt: server.complete(prompt) for prompt in PROMPTS}
                    answers = {}
                    lengths = {prompt: 20 + 40 * i for i, prompt in enumerate(PROMPTS)}

                    def ask(prompt):
                        answers[prompt] = server.complete(prompt, lengths[prompt])

                    threads = [threading.Thread(target=ask, args=(prompt,)) for prompt in PROMPTS]
                    for thread in threads:
                        thread.start()
                    for thread in threads:
                        thread.join()
                    for prompt in PROMPTS:
                        shared = min(len(answers[prompt]), len(expected[prompt]))
                        self.assertEqual(answers[prompt][:shared], expected[prompt][:shared])
                    # The second engine reports its counts a little later, so it may get less than half of the requests.
                    server.wait_for(lambda: sum(self.finished(server, engine) for engine in (0, 1)) == 2 * len(PROMPTS))
                    for engine in (0, 1):
                        self.assertGreaterEqual(self.finished(server, engine), len(PROMPTS) // 2)
                    self.assertEqual(server.metric("vllm:num_requests_running", 1), 0)
                    # An aborted request is removed from its engine.
                    with socket.create_connection(server.url.removeprefix("http://").split(":")) as client:
                        body = json.dumps({"model": "tiny", "prompt": "a", "max_tokens": 400, "ignore_eos": True, "n": 4})
                        client.sendall(
                            f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
                        )
                        time.sleep(0.2)
                    for engine in (0, 1):
                        server.wait_for(lambda engine=engine: server.metric("vllm:num_requests_running", engine) == 0)
                    # A schema is checked by the engine of the server's own process.
                    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
                    for _ in range(2):
                        text = server.complete("json:", 30, structured_outputs={"json": schema}, ignore_eos=False)
                        self.assertTrue(text.startswith("{"), text)
                    server.process.send_signal(signal.SIGTERM)
                    self.assertEqual(server.process.wait(timeout=TIMEOUT), 0, server.text())
                    self.assertNotIn("rank", server.text().split("startup complete")[1])
                finally:
                    server.close()

    @staticmethod
    def finished(server, engine):
        # The labels after the model's name are the reasons.
        with urllib.request.urlopen(server.url + "/metrics", timeout=TIMEOUT) as response:
            return sum(
                float(line.rsplit(" ", 1)[1])
                for line in response.read().decode().splitlines()
                if line.startswith(f'vllm:request_success_total{{engine="{engine}"')
            )


class LostRanks(unittest.TestCase):
    """kill -9, SIGSTOP and a delay, in six states of a rank."""

    STATES = ["start-up", "capture", "idle", "prefill", "decode", "shutdown"]
    KINDS = [
        ["-tp", "2"],
        ["-dp", "2"],
        ["-dp", "2", "--data-parallel-lockstep"],
        ["-pp", "2"],
        ["-tp", "2", "--enable-expert-parallel"],
        ["-dp", "2", "--enable-expert-parallel"],
        ["-tp", "2", "-pp", "2"],
    ]

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="reprise_experts_")
        cls.addClassCleanup(cls.folder.cleanup)
        write_expert_model(cls.folder.name)

    def lose(self, how, state, sizes, rank=1):
        options = ["--distributed-timeout-seconds", str(LOST_SECONDS), *sizes]
        model = None
        if "--enable-expert-parallel" in sizes:
            model = self.folder.name
            options += ["--load-format", "dummy"]
        server = Server(*options, wait=False, model=model)
        self.clients = []
        num_ranks = math.prod(int(word) for word in sizes if word.isdigit())
        case = f"{how} in {state} with {sizes}"
        try:
            if state == "start-up":
                server.wait_for(lambda: len(children_of(server.process.pid)) == num_ranks)
            elif state == "capture":
                server.wait_for(lambda: "apturing" in server.text() or "startup complete" in server.text())
            else:
                server.wait_until_ready()
            server.ranks = children_of(server.process.pid)
            if state in ("prefill", "decode"):
                prompt, tokens = ("a " * 240, 1) if state == "prefill" else ("a", 200)
                self.keep_busy(server, prompt, tokens)
            if state == "shutdown":
                server.process.send_signal(signal.SIGTERM)
            # Ranks over TCP leave no shared memory behind, because they have none.
            for pid in server.ranks:
                with open(f"/proc/{pid}/maps") as file:
                    self.assertNotIn("/dev/shm", file.read(), case)
            begin = time.monotonic()
            os.kill(server.ranks[rank], signal.SIGKILL if how == "kill" else signal.SIGSTOP)
            if how == "delay":
                time.sleep(1)
                os.kill(server.ranks[rank], signal.SIGCONT)
                self.assert_still_well(server, state, case)
                self.report(how, state, sizes, "no alarm")
                return
            server.process.wait(timeout=TIMEOUT)
            seconds = time.monotonic() - begin
            self.assertLess(seconds, NAMED_SECONDS, f"{case}: {server.text()}")
            for pid in server.ranks:
                self.assertFalse(is_running(pid), case)
            self.assert_ports_are_free(server)
            if state == "shutdown" and server.process.returncode == 0:
                self.report(how, state, sizes, "had already ended")
                return
            self.assertNotEqual(server.process.returncode, 0, case)
            self.assertRegex(server.text(), rf"rank {rank} ", case)
            self.report(how, state, sizes, f"named, all ended after {seconds:.1f} s")
        finally:
            server.close()

    def report(self, how, state, sizes, outcome):
        if RUNS_MATRIX:
            print(f"| {' '.join(sizes)} | {state} | {how} | {outcome} |", flush=True)

    def lose_in_all_states(self, sizes):
        if not RUNS_MATRIX:
            self.skipTest("give --matrix")
        for state in self.STATES:
            for how in ("kill", "stop", "delay"):
                with self.subTest(how=how, state=state, sizes=sizes):
                    self.lose(how, state, sizes)

    def assert_ports_are_free(self, server):
        if not hasattr(server, "url"):
            return
        host, port = server.url.removeprefix("http://").split(":")
        with socket.socket() as client:
            self.assertNotEqual(client.connect_ex((host, int(port))), 0)

    def assert_still_well(self, server, state, case):
        """A rank that was late for a second is not a lost rank."""
        if state != "shutdown":
            if not hasattr(server, "url"):
                server.wait_until_ready()
            self.assertTrue(server.complete("a", 5), case)
            self.stop_clients()
            server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(timeout=TIMEOUT), 0, f"{case}: {server.text()}")
        self.assertNotIn("heartbeat", server.text(), case)

    def keep_busy(self, server, prompt, max_tokens):
        """Requests until the server is gone or stop_clients() is called; the first short one is answered."""
        self.stops = threading.Event()
        answered = threading.Event()

        def run(number):
            try:
                if number == 0:
                    server.complete(f"{number} {prompt}", min(max_tokens, 8))
                    answered.set()
                while not self.stops.is_set():
                    server.complete(f"{number} {prompt}", max_tokens)
            except (urllib.error.URLError, OSError, ValueError):
                pass

        self.clients = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(4)]
        for client in self.clients:
            client.start()
        self.assertTrue(answered.wait(TIMEOUT))

    def stop_clients(self):
        # A server gives requests 30 s when it ends, which may be too short on a busy machine.
        if not self.clients:
            return
        self.stops.set()
        for client in self.clients:
            client.join(timeout=TIMEOUT)

    def test_one_of_each_kind(self):
        if RUNS_MATRIX:
            self.skipTest("the matrix has them")
        for how, state, sizes in [
            ("kill", "decode", ["-dp", "2"]),
            ("stop", "idle", ["-tp", "2"]),
            ("kill", "start-up", ["-tp", "2"]),
            ("delay", "decode", ["-dp", "2", "--data-parallel-lockstep"]),
            ("stop", "decode", ["-dp", "2", "--enable-expert-parallel"]),
            ("kill", "decode", ["-tp", "2", "-pp", "2"]),
        ]:
            with self.subTest(how=how, state=state, sizes=sizes):
                self.lose(how, state, sizes)

    def test_a_rank_that_stops_while_the_ranks_end_is_named(self):
        # In an earlier version the launcher waited for such a rank for ever. Often the rank has ended before this test
        # can stop it.
        for _ in range(3):
            self.lose("stop", "shutdown", ["-dp", "2"])

    def test_ranks_end_with_the_process_that_started_them(self):
        server = Server("-dp", "2")
        try:
            server.process.kill()
            server.process.wait()
            deadline = time.monotonic() + NAMED_SECONDS
            while any(is_running(pid) for pid in server.ranks) and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertFalse([pid for pid in server.ranks if is_running(pid)])
        finally:
            server.close()


# A test for each kind of ranks, so that they can run side by side: LostRanks.test_matrix_tp_2, ...
for kind in LostRanks.KINDS:
    words = re.findall(r"\w+", " ".join(kind).removeprefix("-"))
    setattr(LostRanks, "test_matrix_" + "_".join(words), lambda self, kind=kind: self.lose_in_all_states(kind))


if __name__ == "__main__":
    RUNS_MATRIX = "--matrix" in sys.argv
    words = [word for word in sys.argv[1:] if word != "--matrix"]
    BINARY, MODEL = os.path.abspath(words[0]), os.path.abspath(words[1])
    unittest.main(argv=[sys.argv[0], *words[2:]], verbosity=2)
