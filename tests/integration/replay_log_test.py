#!/usr/bin/env python3
"""--replay-log and `reprise replay` as their users meet them: a server, its log, and what a replay says.

    replay_log_test.py REPRISE_BINARY MODEL_FOLDER

Uses only Python's standard library.
"""

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import serve_test
from serve_test import chats, stories

SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "properties": {
    "n": {"type": "integer"}}, "required": ["n"]}}}


class ReplayLog(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="reprise_replay_"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.file = self.folder / "answers.log"

    def serve(self, *options):
        server = serve_test.Server("--replay-log", str(options[0] if options else self.file), "--max-model-len", "256",
                                   *options[1:])
        self.addCleanup(server.stop, 9)
        return server

    def run_cli(self, *arguments):
        return subprocess.run([serve_test.BINARY, *map(str, arguments)], capture_output=True, text=True,
                              timeout=serve_test.TIMEOUT, check=False)

    def replay(self, *arguments, code=0):
        run = self.run_cli("replay", self.file, *arguments)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run.stdout

    def records(self):
        return [json.loads(line) for line in self.file.read_text(encoding="utf-8").splitlines() if line]

    def write_records(self, lines):
        self.file.write_text("".join(line + "\n" for line in lines), encoding="utf-8")

    def one_answer(self):
        """The log of one short answer."""
        run = self.run_cli("generate", serve_test.MODEL, "--prompt", "Once upon a time", "--max-tokens", "12", "--temperature",
                           "0", "--replay-log", self.file)
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_answers_of_a_server_are_repeated_by_the_id_of_the_client(self):
        server = self.serve()
        _, plain = server.post("/v1/completions", stories(temperature=1))
        _, several = server.post("/v1/completions", stories(temperature=1, n=3, prompt=["A", "The fox"]))
        _, stopped = server.post("/v1/completions", stories(stop=["e"], max_tokens=60))
        _, form = server.post("/v1/chat/completions", chats(response_format=SCHEMA, max_tokens=60))
        status, _ = server.post("/v1/completions", stories(max_tokens=-1))
        self.assertEqual(status, 400)
        # The client disconnects in the middle of an answer.
        body = json.dumps(stories(max_tokens=200, stream=True, ignore_eos=True)).encode()
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                               b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            connection.recv(2000)
        server.wait_until(lambda: server.metric("reprise:replay_log_requests_total") == 10)
        self.assertEqual(server.metric("reprise:replay_log_dropped_requests_total"), 0)
        self.assertEqual(server.metric("reprise:replay_log_bytes_total"), self.file.stat().st_size)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o600)

        out = self.replay()
        self.assertRegex(out, r"10 of 10 answers are equal \(\d+ tokens\); 0 different, 0 not repeated\n")
        ids = {record["id"] for record in self.records()[1:]}
        self.assertLessEqual({plain["id"], stopped["id"], form["id"]}, ids)
        self.assertLessEqual({f"{several['id']}-{choice}" for choice in range(6)}, ids)
        self.assertIn("1 of 1 answers are equal", self.replay("--request", form["id"], "--max-num-seqs", "1"))
        listed = self.replay("--list")
        self.assertEqual(len(listed.splitlines()), 11)
        self.assertTrue(all(len(line) <= 80 for line in listed.splitlines()), listed)
        self.assertIn(f"{several['id']}-5", listed)
        self.assertIn("has no answer 'x'", self.run_cli("replay", self.file, "--request", "x").stderr)
        finished = {record["id"]: record["finish_reason"] for record in self.records()[1:]}
        self.assertIn("abort", finished.values())
        self.assertEqual(finished[stopped["id"]], "stop")

    def test_a_difference_is_named_with_its_cause(self):
        self.one_answer()
        out = self.replay("--cpu-isa", "scalar", "--verbose", code=1)
        lines = out.splitlines()
        self.assertEqual(lines[0], "0:")
        self.assertRegex(lines[1], "^  token 1 of 12")
        causes = [line for line in lines if "likely cause" in line]
        self.assertRegex(causes[0], "another instruction set: [a-z0-9_]+, now scalar")
        self.assertIn("0 of 1 answers are equal (12 tokens); 1 different", out)
        self.assertTrue(all(len(line) <= 80 for line in lines), out)

    def test_the_model_may_lie_elsewhere_and_be_another_one(self):
        model = self.folder / "model"
        shutil.copytree(serve_test.MODEL, model)
        self.one_answer()
        self.assertIn("1 of 1 answers", self.replay("--model", model))
        weights = bytearray((model / "model.safetensors").read_bytes())
        weights[1_500_001] ^= 0x40
        (model / "model.safetensors").write_bytes(weights)
        out = self.replay("--model", model, code=1)
        self.assertIn("  likely cause: other weights: model.safetensors\n", out)

    def test_several_starts_share_a_file_and_damage_costs_one_answer(self):
        for _ in range(3):
            self.one_answer()
        lines = self.file.read_text(encoding="utf-8").splitlines()
        self.assertEqual([json.loads(line)["kind"] for line in lines], ["engine", "request"] * 3)
        self.assertIn("3 of 3 answers are equal (36 tokens)", self.replay())
        self.write_records([*lines[:3], lines[3][:-40], *lines[4:]])
        run = self.run_cli("replay", self.file)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("2 of 2 answers", run.stdout)
        self.assertIn("line 4 is left out: its checksum is wrong", run.stderr)

    def test_engines_of_several_ranks_are_made_again(self):
        for option, other_code in (("--tensor-parallel-size", 1), ("--pipeline-parallel-size", 0), ("--data-parallel-size", 0)):
            with self.subTest(option=option):
                self.file.unlink(missing_ok=True)
                run = self.run_cli("generate", serve_test.MODEL, "--prompt", "A", "--prompt", "The fox", "--max-tokens", "9",
                                   option, "2", "--replay-log", self.file)
                self.assertEqual(run.returncode, 0, run.stderr)
                engines = [record for record in self.records() if record["kind"] == "engine"]
                self.assertEqual(len(engines), 2 if option == "--data-parallel-size" else 1)
                self.assertIn("2 of 2 answers are equal (18 tokens)", self.replay())
                out = self.replay(option, "1", code=other_code)
                self.assertEqual("another number of ranks that share a layer: 2, now 1" in out, other_code == 1, out)

    def test_a_full_disk_stops_no_answer(self):
        server = self.serve("/dev/full")
        for _ in range(3):
            status, answer = server.post("/v1/completions", stories())
            self.assertEqual((status, answer["choices"][0]["finish_reason"]), (200, "length"))
        server.wait_until(lambda: server.metric("reprise:replay_log_dropped_requests_total") == 3)
        self.assertEqual(server.log_so_far().count("replay log /dev/full: cannot be written"), 1)
        self.assertEqual(server.stop(), 0)

    def test_files_that_are_no_logs_are_refused_before_anything_is_loaded(self):
        for arguments, words in (
                (("replay",), "needs a file"),
                (("replay", self.file), "cannot be read"),
                (("replay", serve_test.MODEL), "cannot be read"),
                (("replay", Path(serve_test.MODEL) / "config.json"), "no line describes an engine"),
                (("replay", self.file, "more"), "unexpected argument 'more'"),
                (("generate", serve_test.MODEL, "--prompt", "7", "--replay-log", self.folder), "is not a file"),
                (("generate", serve_test.MODEL, "--prompt", "7", "--replay-log", self.folder / "none" / "x"), "No such file"),
                (("generate", serve_test.MODEL, "--prompt", "7", "--replay-log", ""), "needs a file")):
            run = self.run_cli(*arguments)
            self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
            self.assertIn(words, run.stderr)
        self.file.touch()
        self.assertIn("has no records", self.run_cli("replay", self.file).stderr)
        self.assertIn("--request", self.run_cli("replay", "--help").stdout)

    def test_a_file_that_others_may_read_gives_a_warning(self):
        self.file.touch()
        os.chmod(self.file, 0o644)
        run = self.run_cli("generate", serve_test.MODEL, "--prompt", "7", "--max-tokens", "1", "--replay-log", self.file)
        self.assertIn("other users may read", run.stderr)
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o644)


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
