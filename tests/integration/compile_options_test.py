#!/usr/bin/env python3
"""Compile levels, their many spellings, the compile cache and `reprise dump`, through the built binary.

    compile_options_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER

Uses only Python's standard library.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

BINARY = MODEL = SOURCE = None
LAYERS = 6  # of the bundled model
SVG = "{http://www.w3.org/2000/svg}"
XHTML = "{http://www.w3.org/1999/xhtml}"


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="reprise_options_"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.home = self.folder / "home"
        self.home.mkdir()

    def run_cli(self, *arguments, binary=None, **environment):
        # Removes the caller's own cache settings, for reading and for writing.
        kept = ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS")
        clean = {name: os.environ[name] for name in kept if name in os.environ}
        clean["HOME"] = str(self.home)
        clean.update({name: str(value) for name, value in environment.items()})
        return subprocess.run(
            [str(binary or BINARY), *map(str, arguments)], capture_output=True, text=True, env=clean, check=False
        )

    def ok(self, *arguments, **environment):
        run = self.run_cli(*arguments, **environment)
        self.assertEqual(run.returncode, 0, f"{arguments}: {run.stderr}")
        return run

    def refused(self, *arguments, **environment):
        run = self.run_cli(*arguments, **environment)
        self.assertEqual(run.returncode, 2, f"{arguments}: {run.returncode} {run.stderr}")
        return run.stderr

    def generate(self, *options, **environment):
        run = self.ok(
            "generate", MODEL, "--prompt", "Once upon a time", "--max-tokens", 6, "--temperature", 0,
            "--max-num-seqs", 4, "--max-num-batched-tokens", 64, "--json", *options, **environment,
        )
        document = json.loads(run.stdout)
        document["tokens"] = document["outputs"][0]["token_ids"]
        return document

    def dump(self, *options):
        return self.ok("dump", MODEL, *options).stdout


# Spellings of a level, and the level that each of them means.
SPELLINGS = [
    ([], 3),
    (["--level", "0"], 0),
    (["--level", "1"], 1),
    (["--level=2"], 2),
    (["--level", "3"], 3),
    (["--level", "PIECEWISE"], 3),
    (["--level", "DYNAMO_ONCE"], 2),
    (["--compilation-config", "3"], 3),
    (["--compilation-config", "0"], 0),
    (["--compilation-config", '{"mode": 1}'], 1),
    (["--compilation-config={\"mode\": \"DYNAMO_TRACE_ONCE\"}"], 2),
    (["--compilation_config", '{"mode": "vllm_compile"}'], 3),
    (["--compilation-config", '{"level": 2}'], 2),
    (["--compilation-config", '{"level": "NO_COMPILATION"}'], 0),
    (["--compilation-config", '{"level": "DYNAMO_AS_IS"}'], 1),
    (["--compilation-config.mode", "1"], 1),
    (["-cc", "2"], 2),
    (["-cc", '{"mode": "STOCK_TORCH_COMPILE"}'], 1),
    (["-cc.mode=3"], 3),
    (["-cc.mode", "VLLM_COMPILE"], 3),
    (["-cc.mode=NONE"], 0),
    (["-cc.level=1"], 1),
    (["-O0"], 0),
    (["-O1"], 3),
    (["-O2"], 3),
    (["-O3"], 3),
    (["-O", "0"], 0),
    (["--optimization-level", "0"], 0),
    (["--optimization-level=3"], 3),
    (["--optimization_level", "O0"], 0),
    (["-O0", "-cc.mode=3"], 3),
    (["-O3", "--level", "0"], 0),
    (["--enforce-eager"], 0),
    (["--enforce-eager", "--level", "3"], 0),
    (["--no-enforce-eager"], 3),
    (["--level", "1", "--level", "2"], 2),
]

# Wrong values, and the text that the message must contain.
MISTAKES = [
    (["--level", "4"], ["--level", "0 to 3", "4"]),
    (["--level", "-1"], ["--level", "-1"]),
    (["--level", "PIECEWIS"], ["--level", "PIECEWIS", "PIECEWISE"]),
    (["--level", ""], ["--level"]),
    (["-O4"], ["optimization level", "4"]),
    (["--optimization-level", "best"], ["optimization level", "best"]),
    (["-cc", "4"], ["mode", "4"]),
    (["-cc.mode=four"], ["mode", "four"]),
    (["-cc", '{"level": 9}'], ["9", "0 to 3"]),
    (["-cc", '{"mode": 1, "level": 2}'], ["mode", "level", "contradict"]),
    (["-cc", '{"modes": 1}'], ["modes", "did you mean"]),
    (["-cc", "{mode: 1}"], ["--compilation-config", "JSON"]),
    (["-cc", '{"use_cudagraph": 3}'], ["use_cudagraph"]),
    (["-cc", '{"cudagraph_mode": "FUL"}'], ["cudagraph_mode", "FUL"]),
    (["-cc", '{"cudagraph_capture_sizes": "many"}'], ["cudagraph_capture_sizes"]),
    (["-cc", '{"cuda_graph_sizes": [-4]}'], ["cuda_graph_sizes"]),
    (["-cc", '{"splitting_ops": "attention"}'], ["splitting_ops"]),
    (["-cc", '{"cudagraph_copy_inputs": "yes"}'], ["cudagraph_copy_inputs"]),
    (["-cc", '{"use_inductor": 2}'], ["use_inductor"]),
    (["-cc", '{"compile_sizes": ["sizes"]}'], ["compile_sizes"]),
    (["-cc", '{"inductor_compile_config": 1}'], ["inductor_compile_config"]),
    (["-cc", '{"debug_dump_path": 1}'], ["debug_dump_path"]),
    (["-cc", '{"cache_dir": []}'], ["cache_dir"]),
    (["-cc", '{"backend": "tvm"}'], ["backend", "tvm"]),
]


class Extensions(Case):
    """The example's plug-in: the op example::clip, passes that use it, a compiler."""

    def setUp(self):
        super().setUp()
        self.plugin = Path(BINARY).parent / "example_extension.so"
        if not self.plugin.exists():
            self.skipTest("built without examples")

    def test_an_op_of_a_plugin_splits_the_model(self):
        clip = ["--extension", self.plugin, "-cc.inductor_passes.pre_grad_custom_pass", "clip_residuals"]
        split = ["-cc.splitting_ops", '["vllm::unified_attention_with_output", "example::clip"]']
        plain = self.generate()
        answer = self.generate(*clip, *split)
        self.assertEqual(answer["tokens"], plain["tokens"])
        pieces = answer["compilation"]["counters"]["num_piecewise_graphs_seen"]
        self.assertEqual(pieces - plain["compilation"]["counters"]["num_piecewise_graphs_seen"], 4 * LAYERS)
        self.assertIn("example::clip", self.dump(*clip, *split))
        hard = ["-cc.inductor_passes.pre_grad_custom_pass", "clip_residuals_hard"]
        self.assertNotEqual(self.generate("--extension", self.plugin, *hard)["tokens"], plain["tokens"])

    def test_a_compiler_of_a_plugin_is_a_backend(self):
        answer = self.generate("--extension", self.plugin, "-cc.backend", "kept_files")
        if answer["compilation"]["backend"] == "eager":
            self.skipTest("built without LLVM")
        self.assertEqual(answer["compilation"]["backend"], "kept_files")
        self.assertTrue(list(self.home.rglob("compilers/kept_files/object_*")))

    def test_explain_knows_the_plugin(self):
        passes = '{"inductor_passes": {"post_grad_custom_post_pass": "clip_residuals"}, "backend": "kept_files"}'
        self.ok("explain", "--extension", self.plugin, "-cc", passes)
        self.assertIn("no passes are registered", self.refused("explain", "-cc", passes.replace("kept_files", "")))

    def test_mistakes_are_errors_that_name_them(self):
        for options, parts in (
            (["--extension", "/nowhere.so"], ["/nowhere.so", "No such file"]),
            (["--extension", self.plugin, "--extension", self.plugin], ["example::clip", "already"]),
            (["--extension", self.plugin, "-cc.inductor_passes.pre_grad_custom_pass", "clip"],
             ["no pass is called 'clip'", "there are clip_residuals, clip_residuals_hard"]),
            (["-cc.inductor_passes.post_pass", "clip"], ["post_pass", "post_grad_custom_post_pass"]),
            (["--extension", self.plugin, "-cc.backend", "files"], ["backend", "kept_files"]),
        ):
            text = self.refused("generate", MODEL, "--prompt", "a", *options)
            for part in parts:
                self.assertIn(part, text)

    def test_an_op_that_the_model_does_not_have_is_a_warning(self):
        run = self.ok("generate", MODEL, "--prompt", "a", "--max-tokens", 1, "-cc.splitting_ops", '["attention", "mine::op"]')
        self.assertIn("no op 'mine::op'", run.stderr)


class Spellings(Case):
    def test_every_way_to_ask_for_a_level_is_understood(self):
        for options, level in SPELLINGS:
            with self.subTest(options=options):
                answer = json.loads(self.ok("explain", *options, "--json").stdout)
                self.assertEqual(answer["level"], level)

    def test_the_level_asked_for_is_the_level_that_runs(self):
        tokens = None
        for options, level in [(["--level", "0"], 0), (["-cc.mode=1"], 1), (["-cc", '{"level": 2}'], 2), (["-O3"], 3)]:
            with self.subTest(options=options):
                document = self.generate(*options)
                self.assertEqual(document["compilation"]["level"], level)
                self.assertEqual(tokens or document["tokens"], document["tokens"])
                tokens = document["tokens"]

    def test_a_wrong_value_is_refused_by_name(self):
        for options, words in MISTAKES:
            with self.subTest(options=options):
                message = self.refused("generate", MODEL, "--prompt", "One", *options)
                for word in words:
                    self.assertIn(word, message)


# Tests the fields of ATOM's and vLLM's compilation config, each by an effect that it has.
class Fields(Case):
    def test_sizes_have_flags_of_their_own(self):
        for flags, fields in [
            (["--cudagraph-capture-sizes", "1", "2", "4"], {"cudagraph_capture_sizes": [1, 2, 4]}),
            (["--cuda-graph-sizes", "1", "2", "4"], {"cudagraph_capture_sizes": [1, 2, 4]}),
            (["--cuda-graph-sizes", "24"], {"max_cudagraph_capture_size": 24}),
            (["--max-cudagraph-capture-size", "24"], {"max_cudagraph_capture_size": 24}),
        ]:
            with self.subTest(flags):
                answer = json.loads(self.ok("explain", *flags, "--json").stdout)
                self.assertEqual(answer["capture_sizes"], self.explain(**fields)["capture_sizes"])
                self.assertNotEqual(answer["capture_sizes"], self.explain()["capture_sizes"])

    def explain(self, **fields):
        return json.loads(self.ok("explain", "-cc", json.dumps(fields), "--json").stdout)

    def test_use_cudagraph(self):
        self.assertEqual(self.explain(use_cudagraph=False)["resolved"], "NONE")
        self.assertNotEqual(self.explain(use_cudagraph=True)["resolved"], "NONE")

    def test_cudagraph_mode(self):
        for mode in ["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"]:
            self.assertEqual(self.explain(cudagraph_mode=mode)["resolved"], mode)

    def test_capture_sizes(self):
        sizes = self.explain(cudagraph_capture_sizes=[1, 2, 4])["capture_sizes"]["mixed"]
        self.assertEqual(sizes, [1, 2, 4])
        self.assertEqual(max(self.explain(cuda_graph_sizes=[32])["capture_sizes"]["decode"]), 32)

    def test_splitting_ops(self):
        self.assertIn(f"{2 * LAYERS + 1}: {LAYERS + 1} compiled", self.dump("-cc.splitting_ops", '["attention"]'))
        vllm = '["vllm::unified_attention_with_output"]'
        self.assertIn(f"{2 * LAYERS + 1}: {LAYERS + 1} compiled", self.dump("-cc.splitting_ops", vllm))
        whole = self.dump("-cc", '{"splitting_ops": [], "cudagraph_mode": "FULL"}')
        self.assertRegex(whole, r"pieces +1: 1 compiled \(1 unique\), 0 split points")

    def test_cudagraph_copy_inputs_changes_no_token(self):
        fields = {"cudagraph_mode": "PIECEWISE", "cudagraph_copy_inputs": True}
        self.assertEqual(self.generate("-cc", json.dumps(fields))["tokens"], self.generate()["tokens"])

    def test_use_inductor_and_backend_choose_whether_code_is_generated(self):
        for options in (["-cc.use_inductor=false"], ["-cc.backend", "eager"]):
            compilation = self.generate(*options)["compilation"]
            self.assertEqual(compilation["backend"], "eager")
            self.assertNotIn("num_generated_kernels", compilation["counters"])

    def test_compile_sizes_and_inductor_options_are_accepted(self):
        fields = {"compile_sizes": [1, "cudagraph_capture_sizes"], "inductor_compile_config": {"max_autotune": True}}
        self.assertEqual(self.generate("-cc", json.dumps(fields))["tokens"], self.generate()["tokens"])

    def test_debug_dump_path(self):
        self.generate("-cc.debug_dump_path", self.folder / "dump", "--disable-compile-cache")
        for name in ["traced.program.txt", "piece_0/00_before.txt", "piece_0/passes.txt", "memory.txt"]:
            self.assertTrue((self.folder / "dump/rank_0" / name).is_file(), name)


class Launches(Case):
    def test_what_is_reported_is_what_a_step_launches(self):
        fields = '{"cudagraph_mode": "NONE"}'
        traced = self.generate("--level", 0, "-cc", fields)["graphs"]["launches_per_decode_step"]
        for options in (["--level", 1], ["--level", 2], ["--level", 3], ["-cc.backend", "eager"]):
            with self.subTest(options=options):
                document = self.generate("-cc", fields, *options)
                compilation = document["compilation"]
                self.assertEqual(compilation["launches_per_step"], document["graphs"]["launches_per_decode_step"])
                self.assertEqual(compilation["launches_per_step_traced"], traced)

    def test_a_warm_start_reports_the_same(self):
        cold, warm = self.generate()["compilation"], self.generate()["compilation"]
        self.assertEqual(warm["cache"]["outcome"], "hit")
        for key in ("launches_per_step", "launches_per_step_traced", "level"):
            self.assertEqual(cold[key], warm[key])

    def test_verbose_has_a_compile_section(self):
        run = self.ok("generate", MODEL, "--prompt", "One", "--max-tokens", 2, "--verbose", "--max-num-seqs", 4)
        self.assertRegex(run.stderr, r"level 3 VLLM_COMPILE, backend \w+; \d+ launches per decode step instead of \d+")
        self.assertRegex(run.stderr, rf"{2 * LAYERS + 1} pieces: {LAYERS + 1} compiled \(3 unique\), {LAYERS} split")
        self.assertRegex(run.stderr, r"compiled in [\d.]+ s: trace [\d.]+ split")

    def test_bench_says_what_was_compiled(self):
        load = ["--modes", "NONE,FULL", "--num-iters", 1, "--output-len", 4, "--input-len", 4, "--max-num-seqs", 4]
        run = self.ok("bench", "modes", MODEL, *load)
        self.assertIn("level 3 VLLM_COMPILE, backend", run.stdout)
        modes = json.loads(self.ok("bench", "modes", MODEL, *load, "--json").stdout)["modes"]
        self.assertEqual(modes["NONE"]["compilation"]["launches_per_step"], modes["NONE"]["launches_per_decode_step"])

    def test_explain_tells_what_becomes_of_a_model(self):
        run = self.ok("explain", MODEL, "--compile")
        self.assertIn("level      3 VLLM_COMPILE: not given, -O2 chooses it", run.stdout)
        self.assertRegex(run.stdout, r"compiled   level 3 VLLM_COMPILE, backend \w+; \d+ launches")
        self.assertIn("level 0 NONE", self.ok("explain", MODEL, "--compile", "-O0").stdout)
        self.assertIn("--compile", self.refused("explain", "--compile"))

    def test_without_the_plugin_groups_run_op_by_op(self):
        lone = self.folder / "reprise"
        shutil.copy(BINARY, lone)
        arguments = ["generate", MODEL, "--prompt", "Once upon a time", "--max-tokens", 6, "--temperature", 0,
                     "--max-num-seqs", 4, "--max-num-batched-tokens", 64, "--json"]
        run = self.run_cli(*arguments, binary=lone)
        self.assertEqual(run.returncode, 0, run.stderr)
        document = json.loads(run.stdout)
        self.assertEqual(document["compilation"]["level"], 3)
        self.assertEqual(document["compilation"]["backend"], "eager")
        self.assertEqual(document["outputs"][0]["token_ids"], self.generate()["tokens"])

    def test_a_broken_plugin_ends_no_start_and_leaves_nothing_in_the_cache(self):
        lone = self.folder / "reprise"
        shutil.copy(BINARY, lone)
        (self.folder / "reprise_codegen_llvm.so").write_text("no library")
        root = self.folder / "broken"
        run = self.run_cli("generate", MODEL, "--prompt", "Once upon a time", "--max-tokens", 6, "--temperature", 0,
                           "--max-num-seqs", 4, "--max-num-batched-tokens", 64, "--json",
                           "--compile-cache-root", root, binary=lone)
        self.assertEqual(run.returncode, 0, run.stderr)
        document = json.loads(run.stdout)
        self.assertEqual(document["compilation"]["backend"], "eager")
        self.assertEqual(document["outputs"][0]["token_ids"], self.generate()["tokens"])
        self.assertEqual(list(root.glob("*/rank_0/manifest.json")), [])


class Cache(Case):
    def test_ranks_and_adapters_share_no_entry_of_a_cache_dir(self):
        """Each start after the first finds every program where the first one left it."""
        for options, entries in ((("-pp", 2), {"rank_0", "rank_1"}), (("--enable-lora",), {"rank_0", "rank_0_adapters"})):
            folder = self.folder / options[0].strip("-")
            written = []
            for _ in range(2):
                run = self.run_cli("generate", MODEL, "--prompt", "a", "--max-tokens", 2, "--max-num-seqs", 2, *options,
                                   f"-cc.cache_dir={folder}")
                self.assertEqual(run.returncode, 0, run.stderr)
                written.append({path.parent.name: path.stat().st_mtime_ns for path in folder.glob("*/manifest.json")})
            with self.subTest(options):
                self.assertEqual(set(written[0]), entries)
                self.assertEqual(written[0], written[1], "the second start compiled again")

    def entries(self, folder):
        return sorted(path.name for path in folder.glob("*")) if folder.is_dir() else []

    def outcome(self, *options, **environment):
        return self.generate(*options, **environment)["compilation"]["cache"]

    def test_a_second_start_is_a_hit_in_the_home_folder(self):
        self.assertEqual(self.outcome()["saved"], "saved")
        self.assertEqual(self.outcome()["outcome"], "hit")
        self.assertEqual(len(self.entries(self.home / ".cache/reprise/compile_cache")), 1)

    def test_the_flag_comes_before_the_variable_and_the_variable_before_the_home(self):
        flag, variable, xdg = self.folder / "flag", self.folder / "variable", self.folder / "xdg"
        self.outcome("--compile-cache-root", flag, REPRISE_CACHE_ROOT=variable, XDG_CACHE_HOME=xdg)
        self.assertEqual((len(self.entries(flag)), len(self.entries(variable))), (1, 0))
        self.outcome(REPRISE_CACHE_ROOT=variable, XDG_CACHE_HOME=xdg)
        self.assertEqual((len(self.entries(variable)), xdg.exists()), (1, False))
        self.outcome(XDG_CACHE_HOME=xdg)
        self.assertEqual(len(self.entries(xdg / "reprise/compile_cache")), 1)
        self.assertEqual(self.entries(self.home), [])

    def test_it_can_be_switched_off(self):
        for options, environment in [
            (["--disable-compile-cache"], {}),
            ([], {"REPRISE_DISABLE_COMPILE_CACHE": "1"}),
            ([], {"VLLM_DISABLE_COMPILE_CACHE": "true"}),
        ]:
            with self.subTest(options=options, environment=environment):
                self.assertNotEqual(self.outcome(*options, **environment)["saved"], "saved")
                self.assertEqual(self.entries(self.home), [])
        self.assertEqual(self.outcome(REPRISE_DISABLE_COMPILE_CACHE="0")["saved"], "saved")

    def test_cache_dir_names_the_entry_itself(self):
        folder = self.folder / "mine"
        self.outcome("-cc.cache_dir", folder)
        self.assertEqual(self.entries(self.home), [])
        self.assertEqual(self.outcome("-cc.cache_dir", folder)["outcome"], "hit")

    def test_levels_one_and_two_are_not_cached(self):
        for level in (1, 2):
            self.assertNotEqual(self.outcome("--level", level)["saved"], "saved")
        self.assertEqual(self.entries(self.home), [])

    def test_clearing_it_is_removing_the_folder(self):
        self.outcome()
        shutil.rmtree(self.home / ".cache/reprise")
        self.assertEqual(self.outcome()["saved"], "saved")

    def test_a_root_that_is_a_file_is_no_error(self):
        (self.folder / "file").write_text("")
        cache = self.outcome("--compile-cache-root", self.folder / "file")
        self.assertNotIn(cache["outcome"], ("hit", ""))


class Dump(Case):
    def test_text_tells_pieces_passes_launches_memory_and_code(self):
        text = self.dump()
        self.assertRegex(text, r"level +3 VLLM_COMPILE")
        self.assertRegex(text, rf"pieces +{2 * LAYERS + 1}: {LAYERS + 1} compiled \(3 unique\), {LAYERS} split points")
        self.assertRegex(text, rf"order +0, {LAYERS - 1} x \(1 2\), 1, 3")
        self.assertRegex(text, r"launches +\d+ launches per decode step instead of \d+ \(-\d+ %\)")
        self.assertRegex(text, r"memory +\d+ bytes per token planned, \d+ alive")
        self.assertRegex(text, r"fuse_add_rms_norm +\. +\. +2 +2")
        self.assertIn("linear_silu_and_mul", text.split("as compiled")[2])
        self.assertNotIn("linear_silu_and_mul", text.split("as traced")[1].split("as compiled")[0])
        self.assertEqual(self.entries(), [])

    def entries(self):
        return [path.name for path in self.home.rglob("*")]

    def test_a_configuration_is_enough(self):
        folder = self.folder / "shape"
        folder.mkdir()
        config = json.loads((MODEL / "config.json").read_text())
        config["num_hidden_layers"] = 24
        (folder / "config.json").write_text(json.dumps(config))
        self.assertIn("23 x (1 2)", self.ok("dump", folder, "--load-format", "dummy").stdout)

    def test_each_rank_has_a_folder_of_its_own(self):
        out = self.folder / "ranks"
        text = self.dump("-pp", 2, "--rank", 1, "--output", out)
        self.assertIn("3 split points", text)
        first, second = ((out / f"rank_{rank}" / "traced.program.txt").read_text() for rank in (0, 1))
        self.assertNotEqual(first, second, "the two stages have different layers")
        self.assertIn("all_reduce", (self.dump("-tp", 2, "--output", self.folder / "tp"),
                                     (self.folder / "tp" / "rank_1" / "traced.program.txt").read_text())[1])
        self.assertIn("--rank: 2 is not one of the 2 ranks", self.refused("dump", MODEL, "-tp", 2, "--rank", 2))

    def test_files_are_written_and_well_formed(self):
        out = self.folder / "out"
        text = self.dump("--output", out)
        self.assertEqual((out / "summary.txt").read_text(), text)
        for name in ["traced.program.txt", "piece_2/00_before.txt", "piece_3/passes.txt", "memory.txt"]:
            self.assertTrue((out / "rank_0" / name).is_file(), name)
        page = ElementTree.parse(out / "index.html").getroot()
        picture = ElementTree.parse(out / "split.svg").getroot()
        self.assertEqual(picture.tag, SVG + "svg")
        self.assertEqual(len(page.findall(f".//{SVG}svg")), 1)
        for root in (page, picture):
            pieces = [g for g in root.iter(SVG + "g") if g.get("class") == "piece"]
            self.assertEqual(len(pieces), 5)  # 0, 5 x (1 2), 1, 3
            cells = [r for r in root.iter(SVG + "rect") if "cell-box" in r.get("class", "")]
            self.assertEqual(len(cells), 2 * LAYERS + 1)

    def test_graphs_are_looked_into_and_each_has_a_page(self):
        out = self.folder / "graphs-too"
        self.dump("--output", out, "--graphs", "--max-num-seqs", 2, "-cc.cudagraph_capture_sizes=[1,2]")
        page = ElementTree.parse(out / "graphs.html").getroot()
        links = [a.get("href") for a in page.iter(XHTML + "a")]
        self.assertIn("graphs/FULL-tokens2-reqs2-uniform.html", links)
        self.assertIn("graphs/PIECEWISE-tokens1.html", links)
        for link in links:
            text = "".join(ElementTree.parse(out / link).getroot().itertext())
            for word in ("rms_norm", "roof"):
                self.assertIn(word, text, link)
        self.assertIn("--output DIR", self.refused("dump", MODEL, "--graphs"))

    def test_the_page_needs_nothing_else(self):
        page = self.ok("dump", MODEL, "--format", "html").stdout
        for word in ["<script", "src=", "href=", "url(", "@import"]:
            self.assertNotIn(word, page)
        self.assertIn("prefers-color-scheme: dark", page)
        outside = set(re.findall(r"https?://[^\"'\s]+", page))
        self.assertEqual(outside, {"http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg"})

    def test_frames_of_the_picture_are_the_launches_of_the_pieces_drawn(self):
        root = ElementTree.fromstring(self.ok("dump", MODEL, "--format", "svg").stdout)
        text = self.dump()
        rows = re.findall(r"^\d+ +(?:compiled|split point) +\d+ -> \d+ +(\d+) -> (\d+)", text, re.MULTILINE)
        before, after = ([int(row[side]) for row in rows] for side in (0, 1))
        frames = [r for r in root.iter(SVG + "rect") if r.get("class", "").startswith("frame ")]
        # The picture has each program once, and the split point twice.
        if "backend         llvm" in text:
            self.assertEqual(len(frames), sum(before) + sum(after) + before[1] + after[1])

    def test_other_levels(self):
        for level in (1, 2):
            self.assertIn("the passes saw the whole program, which was split afterwards", self.dump("--level", level))
        self.assertIn("as traced, and as compiled", self.dump("--level", 1))

    def test_level_1_runs_the_trace_and_level_2_generated_code(self):
        generated = re.search(r"backend +(\w+)", self.dump("--level", 3))[1]
        for rule in ("reprise", "atom", "vllm-0.10"):
            for level, options, backend in ((1, (), "eager"), ("DYNAMO_AS_IS", (), "eager"), (2, (), generated),
                                            (1, ("-cc.backend", "inductor"), generated)):
                with self.subTest(rule=rule, level=level, options=options):
                    text = self.dump("--level", level, "-cc.capture_size_rule", rule, *options)
                    self.assertEqual(re.search(r"backend +(\w+)", text)[1], backend)

    def test_mistakes_are_refused_by_name(self):
        (self.folder / "file").write_text("")
        for options, words in [
            (["--format", "pdf"], ["--format", "pdf", "svg"]),
            (["--format", "all"], ["--output"]),
            (["--output", self.folder / "file"], ["--output", "file"]),
            (["--output", self.folder / "file" / "below"], ["--output", "below"]),
            (["--level", 0], ["level 0"]),
            (["--enforce-eager"], ["level 0"]),
        ]:
            with self.subTest(options=options):
                message = self.refused("dump", MODEL, *options)
                for word in words:
                    self.assertIn(word, message)
        self.assertIn("model folder", self.refused("dump"))


class Pages(Case):
    def source(self, *parts):
        return SOURCE.joinpath(*parts).read_text(encoding="utf-8")

    def test_help_lists_the_variables_that_the_source_reads(self):
        read = set()
        for path in (SOURCE / "src/reprise").rglob("*.cpp"):
            text = path.read_text(encoding="utf-8")
            if re.search("getenv|look_up_process_environment", text) and not path.stem.endswith("_test"):
                read |= set(re.findall(r'(?:getenv|environment|is_on|variable_or_empty)\("(\w+)"\)', text))
                if "variable_or_empty(kName)" in text:
                    read |= set(re.findall(r'constexpr const char\* kName = "([A-Z_]+)";', text))
        self.assertIn("HOME", read)
        # A variable that stands for an option is read through the table that names both.
        table = self.source("src", "reprise", "cli", "environment.cpp")
        read |= {name for name, rest in re.findall(r'Variable\{\s*"(\w+)",(.*?)\}', table, re.DOTALL)
                 if not rest.rstrip().endswith('""')}
        text = subprocess.run([str(BINARY), "--help"], capture_output=True, text=True, check=True).stdout
        listed = set(re.findall(r"^  (\w+) ", text[text.index("Environment:"):text.index("Exit codes:")], re.MULTILINE))
        self.assertEqual(listed, read)

    def test_the_pages_show_what_dump_and_explain_print(self):
        explain = re.search(r"<!-- explain:begin -->\n```\n\$ \S+ (.*?)\n(.*?)```", self.source("README.md"), re.DOTALL)
        self.assertEqual(self.ok(*explain[1].split()).stdout, explain[2])
        page = self.source("docs/howto/compile.md")
        shown = re.search(r"<!-- dump:begin -->\n```\n\$ .*?\n(.*?)```", page, re.DOTALL)[1].splitlines()
        printed = self.dump().splitlines()[: len(shown)]
        if "backend         llvm" not in printed:
            self.skipTest("the page shows a build with LLVM")
        for line in shown:
            # Times differ from run to run, and the size of code depends on the machine's instruction set.
            if not line.startswith(("seconds", "code")):
                self.assertIn(line, printed, "compile.md, between dump:begin and dump:end")

    def test_the_page_on_compiling_has_the_launches_of_each_level(self):
        page = " ".join(self.source("docs/howto/compile.md").split())
        numbers = re.search(r"launches (\d+) kernels at levels 0 and 1, (\d+) at 2, (\d+) at 3", page)
        for level, number in ((1, numbers[1]), (2, numbers[2]), (3, numbers[3])):
            text = self.dump("--level", level)
            if level > 1 and "backend         llvm" not in text:
                self.skipTest("the page tells of a build with LLVM")
            self.assertIn(f"{number} launches per decode step instead of {numbers[1]} ", text)

    def test_the_page_on_counters_has_them_all(self):
        header = self.source("src/reprise/compile/compilation_counter.h")
        fields = re.findall(r"^  (?:uint64_t|double) (\w+) = 0;", header, re.MULTILINE)
        page = self.source("docs/reference/counters.md")
        self.assertGreater(len(fields), 20)
        self.assertEqual(set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE)), set(fields))


if __name__ == "__main__":
    BINARY, MODEL, SOURCE = (Path(argument).resolve() for argument in sys.argv[1:4])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
