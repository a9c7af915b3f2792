"""Load generators, which bring their own ideas of streams, usage and disconnects."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from clients import MODEL, NAME, WithServer

LIMIT = 400  # seconds for a tool; its imports alone take a while


class LoadTools(WithServer, unittest.TestCase):
    def run_tool(self, *command, without=()):
        environment = {key: value for key, value in os.environ.items() if key not in without}
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False, env=environment)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        return done.stdout

    def test_guidellm(self):
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder, "report.json")
            self.run_tool(
                "guidellm", "run", "--disable-console",
                "--backend", f"kind=openai_http,target={self.url.removesuffix('/v1')},model={NAME}",
                "--tokenizer", f"kind=hf_auto,model={MODEL}",
                "--data", "kind=synthetic_text,prompt_tokens=32,output_tokens=8",
                "--profile", "kind=synchronous", "--constraint", "kind=max_requests,count=6",
                "--output", f"kind=json,path={report}")
            (benchmark,) = json.loads(report.read_text())["benchmarks"]
        totals = benchmark["metrics"]["request_totals"]
        self.assertEqual((totals["successful"], totals["errored"]), (6, 0), totals)

    def test_aiperf(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_tool(
                "aiperf", "profile", "--model", NAME, "--url", self.url.removesuffix("/v1"), "--endpoint-type", "chat",
                "--streaming", "--tokenizer", MODEL, "--concurrency", "4", "--request-count", "12",
                "--synthetic-input-tokens-mean", "32", "--output-tokens-mean", "8", "--random-seed", "1",
                "--extra-inputs", "ignore_eos:true", "--ui", "none", "--artifact-dir", folder,
                # In offline mode the tool looks for tokenizers only in the hub's cache.
                without=("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
            (summary,) = pathlib.Path(folder).rglob("profile_export_aiperf.json")
            figures = json.loads(summary.read_text())
        self.assertEqual(figures["request_count"]["avg"], 12, figures)
        self.assertFalse(figures.get("error_summary"))
        self.assertGreater(figures["time_to_first_token"]["avg"], 0)


if __name__ == "__main__":
    unittest.main()
