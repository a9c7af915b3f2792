#!/usr/bin/env python3
"""The scripts of benchmarks/ run to their end at their smallest settings, and report a figure for everything they measure.

    benchmark_scripts_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER

The test looks at what the scripts write, and never at how fast anything is. Uses only Python's standard library;
without numpy, what makes random weights is skipped.
"""

import ast
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

from in_turn import every_time, load_tests  # noqa: F401

BINARY = MODEL = SOURCE = None
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
# The scripts that this test does not run, and what each of them needs. They must at least compile.
NEEDS = {
    "compare_transformers.py": "PyTorch and Transformers",
    "compare_transformers_cuda.py": "PyTorch, Transformers and a GPU",
    "install_peers.sh": "5 GB of other engines and minutes of compilation",
    "llama_cpp_logits.py": "xllamacpp; packed_accuracy.py imports it",
    "lm_eval_table.py": "lm_eval",
    "packed_formats.py": "packed_accuracy.py, which imports it",
    "peer_engines.py": "the engines that bench_peers.py compares with",
    "serving_vs_vllm.sh": "vLLM",
    "structured_schemas.py": "llguidance",
}


def rows_of(text):
    """The rows of a Markdown table, as lists of cells, without the header."""
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in text.splitlines() if line.startswith("|")]
    rule = next(i for i, row in enumerate(rows) if "-" in row[0] and set("".join(row)) <= {"-", ":"})
    return rows[rule + 1:]


class BenchmarkScripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_python(self, script, *arguments):
        environment = os.environ | {"REPRISE_CACHE_ROOT": str(self.folder / "cache"), "TMPDIR": str(self.folder)}
        run = subprocess.run([sys.executable, "-B", SOURCE / script, *map(str, arguments)], capture_output=True, text=True,
                             timeout=600, check=False, env=environment)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout

    def test_verify_graphs(self):
        rows = rows_of(self.run_python("benchmarks/verify_graphs.py", BINARY, MODEL, "--rounds", "1"))
        self.assertEqual([row[0] for row in rows], ["off", "capture"])
        self.assert_positive(*(row[1] for row in rows), rows[1][3], *(row[4] for row in rows))

    def test_trust_costs(self):
        out = self.run_python("benchmarks/trust_costs.py", BINARY, MODEL, "--rounds", "1", "--", "--num-prompts", "8",
                              "--input-len", "8", "--output-len", "8")
        rows = rows_of(out)
        self.assertEqual([row[0] for row in rows[:4]], ["verifier off", "default", "shadow 0.001", "replay log"])
        self.assert_positive(*(cell for row in rows[:4] for cell in row[1:]))
        self.assertIn("the log has 8 answers and 64 tokens", out)

    def test_card_model(self):
        # card_model_test.py compares the figures of this script with measurements on a card.
        out = self.run_python("benchmarks/card_model.py", SOURCE / "benchmarks/shapes/qwen2.5-0.5b/config.json", "--requests", 2)
        rows = rows_of(out)
        self.assertEqual([row[0] for row in rows], ["qkv", "attention", "o", "gate_up", "down", "head", "others"])
        self.assert_positive(*(cell for row in rows for cell in row[1:4]))
        self.assertRegex(out, r"A step of 2 requests: \d+ us, 0\.\d\d of the bandwidth\.")

    def assert_positive(self, *values):
        for value in values:
            self.assertTrue(math.isfinite(float(value)) and float(value) > 0, values)

    def assert_row(self, row, names, positive=()):
        """The first cells are the names; the others are numbers, and those at the indices `positive` are not 0."""
        self.assertEqual(row[:len(names)], names)
        for i, cell in enumerate(row[len(names):], len(names)):
            self.assertRegex(cell, NUMBER, row)
            self.assertGreaterEqual(float(NUMBER.search(cell)[0]), 0, row)
            if i in positive:
                self.assert_positive(NUMBER.search(cell)[0])

    def test_bench_peers(self):
        model, out = MODEL, self.folder / "out"
        if HAS_NUMPY:
            model = self.folder / "tiny"
            self.run_python("tools/make_random_checkpoint.py", "tiny-llama", model)
        formats = ["bf16", "q4_0", "int8"]
        self.run_python("benchmarks/bench_peers.py", BINARY, model, "--engines", "reprise", "--formats", ",".join(formats),
                        "--rounds", 1, "--prompt", "48,32", "--decode", 64, "--out", out)
        report = json.loads((out / "peers.json").read_text(encoding="utf-8"))
        self.assertEqual(list(report), ["arguments", "file_bytes", "roofs", "results"])
        self.assertEqual((list(report["file_bytes"]), list(report["results"])), (formats, formats))
        threads, bandwidth, *peaks = report["roofs"][0].values()
        self.assert_positive(*report["file_bytes"].values(), threads, bandwidth)
        self.assertTrue(all(peak >= 0 for peak in peaks), peaks)  # 0: a CPU without such products
        self.assertEqual(len(report["roofs"]), 1 + 2 * len(formats), "one at first, and one behind each figure")
        for engines in report["results"].values():
            self.assertEqual([list(engines), list(engines["reprise"])], [["reprise"], ["32", "48"]])
            for (figures,) in engines["reprise"].values():
                self.assertLessEqual({"prefill", "decode", "rss_mb", "read_gb_s"}, set(figures), engines)
                self.assert_positive(*figures.values())
        rows = rows_of((out / "peers.md").read_text(encoding="utf-8"))
        self.assertEqual(len(rows), 2 * len(formats))
        for i, row in enumerate(rows):
            self.assert_row(row, [formats[i // 2], "reprise", ("32", "48")[i % 2]], positive=(3, 5, 6))
        front = (out / "readme.md").read_text(encoding="utf-8").splitlines()
        self.assertEqual(front[0], "| weights, work | reprise |")
        self.assertRegex(front[2], r"^\| bf16, decode \| [\d,.]+ \|$")
        self.assertRegex(front[3], r"^\| bf16, prompt of 32 and 48 \| [\d,]+, [\d,]+ \|$")
        chart = xml.etree.ElementTree.parse(out / "peers.svg")
        bars = chart.findall("{http://www.w3.org/2000/svg}rect")[1:]  # the first is the background
        self.assertEqual(len(bars), 4 * len(formats))

    @unittest.skipUnless(HAS_NUMPY, "numpy is not installed: it makes the weights and compares distributions")
    def test_packed_accuracy(self):
        output = self.run_python("benchmarks/packed_accuracy.py", BINARY, MODEL, "--texts", 1, "--tokens", 8, "--dtypes", "float32",
                                 "--formats", "none", "Q8_0", "Q4_0", "GPTQ 8 bits, groups of 128",
                                 "GPTQ 4 bits, groups of 128, desc_act", "AWQ, groups of 64", "W4A16, groups of 32", "W8A8", "FP8, one scale", "FP8, scales of outputs",
                                 "FP8, blocks of 128", "bitsandbytes NF4", "bitsandbytes INT8", "NVFP4", "int8")
        self.assertRegex(output, r"^8 positions of 1 texts, 1024 tokens; perplexity of the float model \d")
        rows = {row[0]: row[1:] for row in rows_of(output)}
        self.assertEqual(len(rows), 15, output)
        self.assertEqual([name for name in rows if "(dequantised)" in name], ["GPTQ 4 bits, groups of 128, desc_act (dequantised)"])
        exact = rows.pop("not packed")
        self.assertEqual((exact[2], exact[5]), ("0.000e+00", "1.0000"))
        self.assertIn(f"float model {exact[4]};", output)
        for name, row in rows.items():
            self.assert_positive(row[0], row[2], row[3], row[4], row[5])
        self.assertGreater(float(rows["GGUF Q4_0"][2]), 5 * float(rows["GGUF Q8_0"][2]))
        # These activations are not rounded, so the packed weights must give what their values give.
        for name in rows:
            if name.startswith("FP8") or "NF4" in name:
                self.assertTrue(rows[name][7].startswith("1.000 "), (name, rows[name]))
        # Rounded activations cost less than the rounding of four-bit weights.
        for name in ("AWQ, groups of 64", "W4A16, groups of 32", "NVFP4"):
            self.assertLess(float(NUMBER.search(rows[name][7])[0]), 2, (name, rows[name]))
        # The unlikely tokens taken as one change little, and only downwards.
        output = self.run_python("benchmarks/packed_accuracy.py", BINARY, MODEL, "--texts", 1, "--tokens", 8, "--dtypes", "float32",
                                 "--formats", "Q8_0", "--likeliest", 512)
        ratio = float(rows_of(output)[0][3]) / float(rows["GGUF Q8_0"][2])
        self.assertTrue(0.9 < ratio < 1.001, (ratio, output))

    @unittest.skipUnless(HAS_NUMPY, "numpy is not installed: it makes the weights")
    def test_packed_experts(self):
        output = self.run_python("benchmarks/packed_experts.py", "--shape", "tiny-qwen3-moe", "--folder", self.folder / "moe",
                                 "--binary", BINARY.parent, "--repeats", 1, "--iterations", 1, "--threads", 2, "--quantization", "int4")
        self.assert_positive(*NUMBER.findall(output.splitlines()[0]))
        names = ["GGUF q8_0", "GGUF q4_0", "--quantization int4"]
        rows = rows_of(output)
        self.assertEqual(len(rows), len(names))
        for name, row in zip(names, rows):
            self.assert_row(row, [name], positive=(6,))

    def test_packed_weights_start(self):
        rows = rows_of(self.run_python("benchmarks/packed_weights_start.py", MODEL, "--binary", BINARY, "--repeats", 1))
        kinds = ["reads the model", "maps the copy", "writes the copy (once)"]
        self.assertEqual(len(rows), len(kinds))
        for kind, row in zip(kinds, rows):
            self.assert_row(row, [MODEL.name, kind], positive=(2, 3, 6, 7))

    def test_cascade(self):
        model = "14 heads on 2 of 64, hidden 896"
        rows = rows_of(self.run_python("benchmarks/cascade.py", "--program", BINARY, "--pairs", 1, "--models", model,
                                       "--loads", "256x4", "320x4"))
        self.assertEqual(len(rows), 2)
        for prefix, row in zip(("256", "320"), rows):
            self.assert_row(row, [model, prefix, "4"], positive=(3, 4, 5))

    def test_state_caching(self):
        model = "Qwen3-Next's delta net, 4 layers"
        rows = rows_of(self.run_python("benchmarks/state_caching.py", "--program", BINARY, "--chats", 1, "--turns", 2, "--first", 64,
                                       "--models", model))
        self.assertEqual(len(rows), 2)
        for names, row in zip((["1", "64"], ["2", "164"]), rows):
            self.assert_row(row, names, positive=range(2, 8))

    def test_speculation(self):
        output = self.run_python("benchmarks/speculation.py", BINARY, MODEL, "--rounds", 1, "--prompts", 4, "--", "--num-threads", 1)
        # In such short runs, the CPU time of the work may be lost in the noise of the start.
        task = (r"{}: (\d+) tokens decoded\n"
                r" +plain: ([\d.]+) us per token, -?[\d.]+ us of CPU, (\d+) graph steps\n"
                r" +drafts: ([\d.]+) us per token, -?[\d.]+ us of CPU, (\d+) graph steps\n"
                r" +speed-up, 1 pairs: median ([\d.]+), quartiles ([\d.]+) to ([\d.]+)\n"
                r" +of CPU time: median -?[\d.]+, quartiles -?[\d.]+ to -?[\d.]+\n")
        found = re.fullmatch(task.format("copy") + task.format("no repetition"), output)
        self.assertIsNotNone(found, output)
        self.assert_positive(*found.groups())

    def test_async_scheduling(self):
        output = self.run_python("benchmarks/async_scheduling.py", BINARY, MODEL, "--rounds", 1, "--", "--num-prompts", 8,
                                 "--input-len", 16, "--output-len", 8)
        header, *modes, ratio = output.splitlines()
        self.assertEqual([mode.split()[0] for mode in modes], ["--no-async-scheduling", "--async-scheduling"])
        for mode in modes:
            figures = mode.split()[1:]
            self.assertEqual(len(figures), len(header.split()))
            self.assert_positive(*figures[:2])
        self.assertRegex(ratio, r"^async / sync, tokens/s, of 1 pairs: median [\d.]+, quartiles [\d.]+ to [\d.]+$")

    def test_build_time(self):
        """On a build folder that makes two objects of which one is asked for."""
        build = self.folder / "build"
        build.mkdir()
        for name in ("one", "two"):
            (build / f"{name}.cpp").write_text("int answer() { return 42; }\n")
        (build / "build.ninja").write_text("rule compile\n  command = g++ -MD -MF $out.d -o $out -c $in\n"
                                           "build one.o: compile one.cpp\nbuild two.o: compile two.cpp\n"
                                           "build both: phony one.o two.o\n")
        output = self.run_python("benchmarks/build_time.py", build, "both", "--only", "two", "--json", self.folder / "seconds")
        seconds = json.loads((self.folder / "seconds").read_text())
        self.assertEqual(list(seconds), ["two.o"], output)
        self.assert_positive(seconds["two.o"])
        self.assertIn("two.o", output)
        self.assertFalse((build / "two.o").exists(), "the build's own objects stay as they are")

    @every_time
    def test_every_other_script_says_what_it_needs(self):
        ours = {"bench_peers.py", "build_time.py", "verify_graphs.py", "packed_accuracy.py", "packed_experts.py",
                "packed_weights_start.py", "cascade.py", "state_caching.py", "speculation.py", "async_scheduling.py", "trust_costs.py",
                "card_model.py", "state_model.py"}
        folder = SOURCE / "benchmarks"
        found = {path.name for pattern in ("*.py", "*.sh") for path in folder.glob(pattern)}
        self.assertEqual(found, ours | set(NEEDS), "add a test of the new script here, or say in NEEDS why there is none")
        for name, need in NEEDS.items():
            with self.subTest(script=name, not_run_because_it_needs=need):
                if name.endswith(".py"):
                    ast.parse((folder / name).read_text(encoding="utf-8"))
                else:
                    subprocess.run(["bash", "-n", folder / name], check=True)


if __name__ == "__main__":
    BINARY, MODEL, SOURCE = map(Path, sys.argv[1:4])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2, warnings="ignore")
