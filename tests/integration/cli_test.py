#!/usr/bin/env python3
"""Flags, configuration, help, completion, manual and environment report, through the built binary.

    cli_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER
"""

import contextlib
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree
from pathlib import Path

BINARY = MODEL = SOURCE = None
TIMEOUT = 300
COMMANDS = ["generate", "serve", "bench modes", "dump", "eval", "explain"]


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="reprise_cli_"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def run_cli(self, *arguments, **environment):
        kept = ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS")
        clean = {name: os.environ[name] for name in kept if name in os.environ}
        clean["HOME"] = str(self.folder)
        clean.update(environment)
        return subprocess.run(
            [BINARY, *map(str, arguments)], capture_output=True, text=True, env=clean, timeout=TIMEOUT, check=False
        )

    def ok(self, *arguments, **environment):
        run = self.run_cli(*arguments, **environment)
        self.assertEqual(run.returncode, 0, f"{arguments}: {run.stderr}")
        return run.stdout

    def refused(self, *arguments, **environment):
        run = self.run_cli(*arguments, **environment)
        self.assertEqual(run.returncode, 2, f"{arguments}: {run.returncode} {run.stdout} {run.stderr}")
        return run.stderr

    def options(self, command):
        return json.loads(self.ok(*command.split(), "--help=format:json"))["options"]

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path


def example_of(option):
    """A value that parses, from what the option says about itself."""
    if option["example"]:
        return option["example"]
    if option["choices"]:
        return option["choices"][0]
    by_name = {"N": "8", "X": "0.5", "JSON": "{}", "ISA": "auto", "TYPE": "auto", "LEVEL": "ALWAYS", "0..3": "1",
               "FORMAT": "auto", "SPEC": "decode:8", "A,B": "FULL,NONE", "ADDRESS": "127.0.0.1"}
    return by_name.get(option["value_name"], "word")



class Attention(Case):
    def attention(self, *options, **environment):
        return re.search(r"^attention +(.*)$", self.ok("explain", *options, **environment), re.M)[1]

    def test_backend_and_version_are_chosen_by_option_and_by_variable(self):
        chosen = {self.attention(*options, **environment) for options, environment in (
            (("--flash-attn-version", "2"), {}),
            (("--attention-backend", "FLASH_ATTN", "--flash-attn-version", "2"), {}),
            ((), {"VLLM_FLASH_ATTN_VERSION": "2"}),
            ((), {"VLLM_ATTENTION_BACKEND": "FLASH_ATTN", "VLLM_FLASH_ATTN_VERSION": "2"}),
        )}
        self.assertEqual(chosen, {"FLASH_ATTN, support UNIFORM_BATCH"})
        self.assertNotIn(self.attention(), chosen)
        self.assertIn("'4'", self.refused("explain", "--flash-attn-version", "4"))
        self.assertIn("VLLM_ATTENTION_BACKEND", self.refused("explain", VLLM_ATTENTION_BACKEND="NO_SUCH"))


class Explain(Case):
    """explain takes the commands that people have, and answers for the model that they name."""

    def test_a_model_that_is_not_there_is_an_error(self):
        self.assertIn("no such model", self.run_cli("explain", "nosuchmodel").stderr)
        self.assertIn("no such model", self.run_cli("explain", self.folder / "nowhere").stderr)
        self.assertNotEqual(self.run_cli("explain", self.folder / "nowhere").returncode, 0)
        self.assertIn("download", self.refused("explain", "Qwen/NoSuchModel", HF_HUB_CACHE=str(self.folder)))

    def test_a_name_of_the_hub_is_the_folder_in_its_cache(self):
        snapshots = self.folder / "models--some--model"
        (snapshots / "refs").mkdir(parents=True)
        (snapshots / "refs" / "main").write_text("abc")
        (snapshots / "snapshots").mkdir()
        (snapshots / "snapshots" / "abc").symlink_to(Path(SOURCE) / "tests/goldens/architectures/mamba2")
        text = self.ok("explain", "some/model", HF_HUB_CACHE=str(self.folder))
        self.assertIn("MAMBA2_ATTN", text)

    def test_a_command_of_serve_or_generate_can_be_pasted(self):
        def graphs(*options):
            # The type of the model decides whose attention kernels a GPU would run.
            return re.sub(r"(?m)^.*kernels on a GPU: .*\n", "", self.ok("explain", MODEL, "--max-num-seqs", "4", *options))

        plain = graphs()
        for command in (("--port", "9000", "--api-key", "k", "--served-model-name", "a", "b", "--enable-auto-tool-choice"),
                        ("--prompt", "-", "--temperature", "0", "--max-tokens", "3", "--chat"),
                        ("--dtype", "float32", "-q", "int8", "--max-model-len", "128", "--gpu-memory-utilization", "0.5"),
                        ("--device-memory-utilization", "0.5", "--max-num-queued-reqs", "4"),
                        ("-tp", "2"), ("-dp", "2"), ("-pp", "2")):
            with self.subTest(command):
                self.assertEqual(graphs(*command), plain)
        notes = self.run_cli("explain", MODEL, "--port", "9000", "--prompt", "a").stderr
        self.assertIn("not needed for a decision: --port, --prompt", notes)

    def test_it_refuses_what_the_start_refuses(self):
        for options in (("-tp", "2", "-cc.pass_config.fuse_gemm_comms=true", "-cc.pass_config.sp_min_token_num=8"), ("--max-model-len", "999999"), ("--dtype", "float8"),
                        ("-cc.splitting_ops", "attenton"), ("-cc.compile_sizes=[7]",), ("--lora-modules", "a=b")):
            with self.subTest(options):
                refusal = self.refused("explain", MODEL, *options)
                self.assertEqual(refusal, self.refused("generate", MODEL, "--prompt", "a", *options))
        self.assertIn("did you mean 'attention'", self.refused("explain", "-cc.splitting_ops=['attenton']"))


class EveryFlag(Case):
    def test_levels_of_support_have_older_names_too(self):
        for old, name in (("ALWAYS_UNIFIED", "ALWAYS"), ("PURE_DECODE_ONLY", "UNIFORM_SINGLE_TOKEN_DECODE")):
            self.assertEqual(*(self.ok("explain", "--attention-support", level, "-cc.cudagraph_mode", "FULL")
                               for level in (old, name)))
        separate = self.ok("explain", "--attention-support", "always_separate", "-cc.cudagraph_mode", "FULL",
                           "--batch", "decode:3", "--batch", "mixed:3")
        self.assertRegex(separate, r"(?m)^resolved +FULL_AND_FULL$")
        self.assertRegex(separate, r"(?m)^decode:3 +FULL +tokens=4 reqs=4 uniform:")
        self.assertRegex(separate, r"(?m)^mixed:3 +FULL +tokens=4 reqs=4:")
        self.assertIn("PURE_DECODE_ONLY", self.refused("explain", "--attention-support", "SOMETIMES"))

    def test_the_preset_of_atom_decides_as_atom_does(self):
        text = self.ok("explain", "--preset", "atom", "-cc.level=3", "--batch", "decode:500", "--batch", "decode:513", "--batch", "prefill:8")
        self.assertRegex(text, r"PIECEWISE \(default\) +<== here")
        self.assertRegex(text, r"(?m)^resolved +FULL_DECODE_ONLY$")
        self.assertRegex(text, r"(?m)^decode:500 +FULL +tokens=512 reqs=512 uniform:")
        self.assertRegex(text, r"(?m)^decode:513 +NONE")
        self.assertRegex(text, r"(?m)^prefill:8 +NONE")
        document = json.loads(self.ok("explain", "--preset", "atom", "--json"))
        self.assertEqual(document["resolved"], "FULL_DECODE_ONLY")
        self.assertEqual(document["capture_sizes"]["decode"][-1], 512)
        self.assertIn("<== here", document["atom_decision_tree"])
        # Options beside the preset have precedence, in either order.
        for options in (("--preset", "atom", "--max-num-seqs", "256"), ("--max-num-seqs", "256", "--preset", "atom")):
            self.assertEqual(json.loads(self.ok("explain", "--json", *options))["capture_sizes"]["decode"][-1], 256)
        rule = json.loads(self.ok("explain", "--json", "-cc.capture_size_rule", "atom", "--preset", "atom"))
        self.assertEqual(rule["resolved"], "PIECEWISE")
        self.assertIn("<== here", self.ok("explain", "--preset=atom", "--enforce-eager"))
        self.assertIn("the only preset is atom", self.refused("explain", "--preset", "sglang"))

    def test_the_preset_of_atom_runs_prompts_eagerly_and_decode_batches_from_full_graphs(self):
        options = ("generate", MODEL, "--prompt", "Anna has", "--max-tokens", "12", "--temperature", "0", "--ignore-eos")
        eager, preset = (self.run_cli(*options, *more) for more in (("--enforce-eager",), ("--preset", "atom")))
        self.assertEqual(preset.stdout, eager.stdout)
        self.assertRegex(preset.stderr, r"replayed FULL 11, PIECEWISE 0, eager 1 steps")

    def test_a_ceiling_of_full_graphs_sends_larger_decode_batches_into_pieces(self):
        text = self.ok("explain", "-cc.max_full_cudagraph_capture_size=128", "--batch", "decode:128", "--batch", "decode:129")
        self.assertRegex(text, r"(?s)decode:128.*FULL.*decode:129.*PIECEWISE")

    def test_every_documented_option_of_serve_parses_in_every_form(self):
        refusals = set()
        keys = self.write("keys", "a-key\n")
        for option in self.options("serve"):
            name = option["name"]
            if name in ("config", "dump-config"):
                continue
            if name == "api-key-file":
                option["example"] = str(keys)
            forms = [[f"--{name}"], [f"--no-{name}"], [f"--{name}=true"]]
            if option["value_name"]:
                value = example_of(option)
                forms = [[f"--{name}", value], [f"--{name.replace('-', '_')}={value}"]]
                if option["short_name"]:
                    forms.append([option["short_name"], value])
            for form in forms:
                with self.subTest(form):
                    run = self.run_cli("serve", MODEL, *form, "--dump-config")
                    if run.returncode == 0:
                        self.assertIn(f"\n{name}: ", re.sub("\n# ", "\n", run.stdout))
                        continue
                    # Only options that vLLM has and this program cannot do may be refused, and their help says so.
                    self.assertEqual(option["group"], "vLLM flags without a meaning here", run.stderr)
                    self.assertIn("is not supported: ", run.stderr)
                    self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
                    refusals.add(name)
        self.assertIn("enable-lora-bias", refusals)

    def test_options_of_other_commands_parse_from_the_environment(self):
        for command in ("generate", "explain"):
            for option in self.options(command):
                name = option["name"]
                if name in ("config", "dump-config", "prompt", "model"):
                    continue
                with self.subTest(f"{command} {name}"):
                    value = example_of(option) if option["value_name"] else "1"
                    variable = "REPRISE_ARG_" + name.upper().replace("-", "_")
                    text = self.ok(command, MODEL, "--dump-config", **{variable: value})
                    self.assertRegex(text, rf"(?m)^{name}: .*  # .*{variable}")


class Configurations(Case):
    def test_the_dumped_configuration_reads_back_as_itself(self):
        file = self.write("serve.yaml", "max-num-seqs: 7\ncompilation-config:\n  cudagraph_mode: FULL\nserved-model-name: [a, b c]\n")
        first = self.ok("serve", MODEL, "--config", file, "--block-size", "32", "-cc.level=1", "--dump-config", VLLM_API_KEY="hush")
        self.assertNotIn("hush", first)
        for line in (f"max-num-seqs: 7  # {file}:1", "block-size: 32  # command line", "# port: 8000  # default",
                     "# api-key: (hidden)  # VLLM_API_KEY", f"served-model-name: [a, \"b c\"]  # {file}:4"):
            self.assertIn(line + "\n", first)
        self.assertRegex(first, rf'compilation-config: \{{"cudagraph_mode":"FULL","level":1\}}  # {file}:3, command line')
        again = self.ok("serve", "--config", self.write("again.yaml", first), "--dump-config")
        values = lambda text: [line.split("  # ")[0] for line in text.splitlines() if not line.startswith("#") and line]
        self.assertEqual(values(first), values(again))

    def test_a_model_may_be_named_in_three_ways(self):
        file = self.write("model.yaml", f"model: {MODEL}\n")
        for arguments in ([MODEL], ["--model", MODEL], ["--config", file]):
            self.assertIn(f"model: {MODEL}", self.ok("serve", *arguments, "--dump-config"))

    def test_mistakes_say_where_they_are(self):
        for text, expected in [
            ("a: 1\n", ":1: unknown option 'a'"),
            ("seed: 1\nmax-num-seq: 4\n", ":2: unknown option 'max-num-seq'; did you mean --max-num-seqs?"),
            ("port: 99999\n", ":1: --port: 99999 is not in 0..65535"),
            ("a: [\n", "not YAML"),
        ]:
            with self.subTest(text):
                self.assertIn(expected, self.refused("serve", MODEL, "--config", self.write("bad.yaml", text)))
        self.assertIn("no such file", self.refused("serve", MODEL, "--config", "nowhere.yaml"))
        self.assertIn("--config: /: is not a file", self.refused("serve", MODEL, "--config", "/"))
        self.assertIn("REPRISE_ARG_PORT: ", self.refused("serve", MODEL, REPRISE_ARG_PORT="x"))


class Mistakes(Case):
    def test_each_is_one_line_that_names_it(self):
        for arguments, expected in [
            (["--max-num-sequences", "4"], "did you mean --max-num-seqs?"),
            (["--decode-context-parallel-size", "2"], "--decode-context-parallel-size 2 is not supported"),
            (["--port", "http"], "--port: 'http' is not a whole number"),
            (["--host", "0.0.0.0"], "--api-key"),
            (["--max-model-len", "99999999"], "max_position_embeddings"),
            (["extra"], "unexpected argument 'extra'"),
            (["--tensor-parallel-size", "2", "--quantization", "fp8"], "--quantization: fp8 is not supported with several ranks"),
        ]:
            with self.subTest(arguments):
                message = self.refused("serve", MODEL, "--port", "0", *arguments)
                self.assertIn(expected, message)
        self.assertIn("needs a model folder", self.refused("serve"))
        self.assertIn("E_MISSING", self.refused("serve", "nowhere/at/all", "--port", "0"))

    def test_addresses_and_certificates_are_checked_before_the_model_is_loaded(self):
        """The model of these commands does not exist, so only what is checked before it can be named."""
        missing = self.folder / "no-model"
        certificate = self.write("cert.pem", "no certificate")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            message = self.refused("serve", missing, "--port", port)
            self.assertIn(f"cannot listen on 127.0.0.1:{port}", message)
            self.assertIn("choose another --port", message)
            self.assertNotIn("no-model", self.refused("serve", missing, "--port", port))
        self.assertIn("--ssl-certfile", self.refused("serve", missing, "--port", "0", "--ssl-certfile", certificate,
                                                     "--ssl-keyfile", certificate))
        self.assertIn("TLS needs both", self.refused("serve", missing, "--port", "0", "--ssl-keyfile", certificate))
        self.assertIn("--uds", self.refused("serve", missing, "--uds", self.folder / "no-folder" / "socket"))
        self.assertIn("--uds: needs a path", self.refused("serve", MODEL, "--uds", ""))
        self.assertIn("is not a socket", self.refused("serve", MODEL, "--uds", self.write("file", "")))
        self.assertIn("no-model", self.refused("serve", missing, "--port", "0"))

    def test_files_for_results_are_checked_before_the_work(self):
        missing, nowhere = self.folder / "no-model", self.folder / "no-folder" / "out"
        batch = self.write("batch.jsonl", "")
        for command, option in ((["bench", "latency", "--model", missing], "--output-json"),
                                (["bench", "throughput", "--model", missing], "--output-json"),
                                (["bench", "startup", "--model", missing], "--output-json"),
                                (["run-batch", "-i", batch, "--model", missing], "--output-file")):
            with self.subTest(command):
                self.assertIn(f"{option} {nowhere}: cannot be written: No such file", self.refused(*command, option, nowhere))
                there = self.write("there", "old")
                self.assertIn("no-model", self.run_cli(*command, option, there).stderr)
                self.assertEqual(there.read_text(), "old")

    def test_swapped_letters_and_flags_of_other_servers_get_a_hint(self):
        for arguments, hint in [
            (["--prot", "8000"], "did you mean --port?"), (["--dtpye", "auto"], "did you mean --dtype?"),
            (["--modle", "x"], "did you mean --model?"), (["-c", "4096"], "write --max-model-len"),
            (["--ctx-size", "4096"], "write --max-model-len"), (["-m", "x"], "write --model"),
            (["-ngl", "99"], "write --device"), (["-t", "8"], "write --num-threads"),
            (["--jinja"], "chat templates are always Jinja"), (["--tp", "2"], "write -tp"),
            (["--temp", "0"], "--help=all"),  # serve has no temperature to name
        ]:
            with self.subTest(arguments):
                message = self.refused("serve", MODEL, *arguments)
                self.assertIn(f"unknown option {arguments[0]}", message)
                self.assertIn(hint, message)
        self.assertNotIn("temperature", self.refused("serve", MODEL, "--temp", "0"))
        self.assertIn("write --temperature", self.refused("generate", MODEL, "--temp", "0"))

    def test_a_misspelt_variable_of_an_option_is_named_by_every_command(self):
        for command in ("serve", "generate", "explain"):  # explain has no --dtype, but serve has
            run = self.run_cli(command, MODEL, "--dump-config", REPRISE_ARG_DTPYE="float32", REPRISE_ARG_PORT="7")
            self.assertEqual(run.returncode, 0)
            self.assertEqual(run.stderr, "warning: REPRISE_ARG_DTPYE is set and means nothing here; did you mean REPRISE_ARG_DTYPE?\n")


class Spellings(Case):
    """What vLLM reads in several forms."""

    def config(self, *options):
        return self.ok("serve", MODEL, *options, "--dump-config")

    def test_an_object_or_a_member_given_to_O_is_of_the_compilation_config(self):
        want = re.search(r"(?m)^compilation-config: (.*?)  #", self.config("-cc", '{"level": 3, "cudagraph_mode": "FULL"}'))[1]
        for options in (["-O.level=3", "-O.cudagraph_mode=FULL"], ["-O", '{"level": 3, "cudagraph_mode": "FULL"}'],
                        ['-O={"level": 3, "cudagraph_mode": "FULL"}'], ['-O{"level": 3, "cudagraph_mode": "FULL"}'],
                        ["-O.level", "3", "-cc.cudagraph_mode", "FULL"],
                        ["--compilation-config", "{'level': 3, 'cudagraph_mode': 'FULL'}"],
                        ["--optimization-level", "{'level': 3, 'cudagraph_mode': 'FULL'}"]):
            with self.subTest(options):
                text = self.config(*options)
                self.assertIn(f"compilation-config: {want}  # command line", text)
                self.assertIn("# optimization-level: 2  # default", text)
        self.assertIn("optimization-level: 3  # command line", self.config("-O3"))
        self.assertIn("optimization-level: 3  # command line", self.config("-O=3"))

    def test_attention_may_be_given_as_an_object(self):
        for options in (["-ac.backend=FLASHINFER"], ["-ac", "{'backend': 'FLASHINFER'}"],
                        ["--attention-config.backend", "FLASHINFER"], ["--attention-config", '{"backend": "FLASHINFER"}']):
            with self.subTest(options):
                self.assertIn("FLASHINFER", re.search(r"(?m)^attention .*", self.ok("explain", MODEL, *options))[0])
        both = self.ok("explain", MODEL, "-ac", '{"backend": "FLASH_ATTN", "flash_attn_version": 2}')
        self.assertEqual(both, self.ok("explain", MODEL, "--attention-backend", "FLASH_ATTN", "--flash-attn-version", "2"))
        self.assertIn("did you mean 'backend'", self.refused("explain", "-ac.bakend=FLASH_ATTN"))
        self.assertIn("FLASH_ATTN", self.refused("explain", "-ac.backend=FLASH_ATNT"))
        self.assertIn("a number from 2 to 3", self.refused("explain", "-ac.flash_attn_version=4"))
        self.assertIn("disable_flashinfer_prefill is true or false", self.refused("explain", "-ac.disable_flashinfer_prefill=7"))
        run = self.run_cli("explain", MODEL, "-ac.use_cudnn_prefill=true")
        self.assertIn("use_cudnn_prefill has no effect here", run.stderr)

    def test_lists_may_be_written_as_python_writes_them(self):
        sizes = lambda *options: self.ok("explain", MODEL, *options)
        want = sizes("-cc.cudagraph_capture_sizes", "[1, 2, 4]")
        self.assertNotEqual(want, sizes())
        for words in (["[1, 2, 4]"], ["1,2,4"], ["1", "2", "4"]):
            self.assertEqual(sizes("--cudagraph-capture-sizes", *words), want, words)
        self.assertIn('"fuse_norm_quant":true', self.config("-cc.pass_config.fuse_norm_quant=True"))
        self.assertIn('"splitting_ops":["a","b"]', self.config("-cc.splitting_ops=['a', 'b']"))
        self.assertEqual(self.refused("serve", MODEL, "--allowed-origins", "['https://a', 5]").count("list of strings"), 1)
        self.config("--allowed-origins", "['https://a.example', 'https://b.example']")
        self.assertIn("--hf-overrides", self.refused("serve", MODEL, "--hf-overrides", "{'a': 1"))

    def test_older_flags_mean_what_replaced_them(self):
        said = lambda *options: self.refused("generate", MODEL, "--prompt", "a", *options)
        self.assertIn("did you mean 'embed'", said("--task", "embd"))
        self.assertIn("a JSON object", said("--rope-scaling", "4"))
        self.assertIn("/v1/embeddings", said("--task", "embed"))
        self.assertIn("rope_type", said("--rope-scaling", '{"rope_type": "no-such", "factor": 2.0}'))

    def test_a_longer_context_needs_a_factor_or_the_variable(self):
        common = ("generate", MODEL, "--prompt", "a", "--max-tokens", "1", "--enforce-eager", "--max-model-len", "4096")
        yarn = '{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}'
        self.ok(*common, "--rope-scaling", yarn)
        self.ok(*common, "--hf-overrides", f'{{"rope_scaling": {yarn}}}')
        self.assertIn("VLLM_ALLOW_LONG_MAX_MODEL_LEN", self.refused(*common))
        self.assertIn("VLLM_ALLOW_LONG_MAX_MODEL_LEN", self.refused(*common, VLLM_ALLOW_LONG_MAX_MODEL_LEN="0"))
        for run in (self.run_cli(*common, VLLM_ALLOW_LONG_MAX_MODEL_LEN="1"),
                    self.run_cli(*common, "--allow-long-max-model-len")):
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("4096 is more than the 1024 positions", run.stderr)

    def test_formats_of_files_are_taken_by_vllms_names(self):
        for value in ("mistral", "gguf", "runai_streamer"):
            run = self.run_cli("serve", MODEL, "--load-format", value, "--dump-config")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn(f"--load-format {value} has no effect here", run.stderr)
        self.assertIn("convert the model", self.refused("serve", MODEL, "--load-format", "tensorizer"))
        run = self.run_cli("serve", MODEL, "--tokenizer-mode", "mistral", "--config-format", "mistral", "--dump-config")
        self.assertIn("--tokenizer-mode mistral has no effect here: tokenizer.json, else tekken.json", run.stderr)
        self.assertIn("--config-format mistral has no effect here: config.json", run.stderr)
        run = self.run_cli("serve", MODEL, "--limit-mm-per-prompt.image", "0", "--dump-config")
        self.assertIn("--limit-mm-per-prompt.image 0 has no effect here", run.stderr)

    def test_structured_outputs_are_configured_field_by_field(self):
        said = lambda value: self.refused("serve", MODEL, "--structured-outputs-config", value)
        for value, message in (("{'backend': 'outlines'}", "one of auto, xgrammar"), ('{"bakend": "auto"}', "did you mean 'backend'"),
                               ('{"disable_additional_properties": true}', "the schema decides"),
                               ('{"enable_in_reasoning": true}', "after the reasoning"),
                               ('{"reasoning_parser": "qwen4"}', "there is no reasoning parser 'qwen4'"),
                               ('{"disable_any_whitespace": 1}', "true or false")):
            with self.subTest(value):
                self.assertIn(message, said(value))
        text = self.config("--structured-outputs-config.disable_any_whitespace=True")
        self.assertIn('"disable_any_whitespace":true', text)
        self.assertIn("guided-decoding-disable-any-whitespace: true", self.config("--guided-decoding-disable-any-whitespace"))
        self.assertIn("one of auto, xgrammar", self.refused("serve", MODEL, "--guided-decoding-backend", "outlines"))


class Server(Case):
    @contextlib.contextmanager
    def serving(self, *options, **environment):
        """A server, by its address; it is stopped behind the block."""
        log = self.folder / "log"
        with log.open("wb") as stream:
            process = subprocess.Popen([BINARY, "serve", MODEL, "--port", "0", "--max-num-seqs", "8", *options], stderr=stream,
                                       env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **environment})
        try:
            deadline = time.monotonic() + TIMEOUT
            while "Application startup complete." not in log.read_text() and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            yield (re.findall(r"http://[\d.]+:\d+", log.read_text()) or [None])[0]
        finally:
            process.terminate()
            self.assertEqual(process.wait(TIMEOUT), 0, log.read_text())

    def start(self, *options, **environment):
        """What a server says until it serves; it is stopped then."""
        with self.serving(*options, **environment):
            pass
        return (self.folder / "log").read_text()


class StartUp(Server):
    LINES = [
        r"INFO \d\d-\d\d \d\d:\d\d:\d\d \[serve_command\.cpp:\d+\] Started server process \[\d+\]",
        r"INFO \d\d-\d\d \d\d:\d\d:\d\d \[serve_command\.cpp:\d+\] non-default args: \{.*\"max-num-seqs\":\"8\"",
        r"Starting to load model .*\.\.\.",
        r"Loading weights took [\d.]+ seconds",
        r"Model loading took [\d.]+ GiB and [\d.]+ seconds",
        r"Using \w+ backend\.",
        r"Available KV cache memory: [\d.]+ GiB",
        r"GPU KV cache size: [\d,]+ tokens",
        r"Maximum concurrency for 1,024 tokens per request: [\d.]+x",
        r"Capturing CUDA graphs \(mixed prefill-decode, PIECEWISE\): 100%\|#+\| (\d+)/\1\n",
        r"Capturing CUDA graphs \(decode, FULL\): 100%\|#+\| (\d+)/\1\n",
        r"Graph capturing finished in [\d.]+ secs, took [\d.]+ GiB",
        r"init engine \(profile, create kv cache, warmup model\) took [\d.]+ seconds \(compilation: [\d.]+ s\)",
        r"Memory: weights .* resident now",
        r"Start-up time: .* total [\d.]+ s \(100\.0 %\)",
        r"Starting Reprise API server on http://127\.0\.0\.1:\d+\n",
        r"Application startup complete\.",
    ]

    def test_the_lines_that_scripts_search_for_come_in_order(self):
        text = self.start("--trust-remote-code", VLLM_API_KEY="hush", VLLM_USE_V9="1")
        at = 0
        for line in self.LINES:
            match = re.compile(line).search(text, at)
            self.assertTrue(match, f"{line} after\n{text[:at]}\nin\n{text}")
            at = match.end()
        self.assertNotIn("hush", text)
        self.assertNotIn("\033", text)
        self.assertIn("--trust-remote-code has no effect here: ", text)
        self.assertIn("VLLM_USE_V9 is set and means nothing here", text)
        shares = re.search(r"Start-up time: (.*) total", text).group(1)
        self.assertAlmostEqual(sum(float(share) for share in re.findall(r"\(([\d.]+) %\)", shares)), 100, places=6)

    def test_the_chat_template_chooses_the_parsers(self):
        template = Path(SOURCE) / "tests/goldens/chat_templates/templates/qwen_tools.jinja"
        text = self.start("--chat-template", template, "--enable-auto-tool-choice", "--reasoning-parser", "auto")
        self.assertIn("tool-call parser hermes, chosen by the chat template", text)
        self.assertIn("reasoning parser qwen3, chosen by the chat template", text)
        self.assertIn("tool-call parser hermes, chosen", self.start("--chat-template", template))
        self.assertNotIn("tool-call parser", self.start("--chat-template", template, "--no-enable-auto-tool-choice"))
        # GPT-OSS's published template writes the recipient of a call in several pieces.
        pieces = self.write("pieces.jinja", """{% for m in messages %}{% for c in m.tool_calls or [] %}{{ "<|start|>assistant to=" }}{{
            "functions." + c.function.name + "<|channel|>commentary json<|message|>" }}{{ c.function.arguments | tojson }}{{
            "<|call|>" }}{% endfor %}{{ "<|start|>" + m.role + "<|channel|>final<|message|>" }}{{ m.content }}{{ "<|end|>" }}{% endfor %}""")
        text = self.start("--chat-template", pieces, "--enable-auto-tool-choice")
        self.assertIn("tool-call parser openai, chosen by the chat template", text)
        plain = self.write("plain.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}")
        self.assertIn("name it with --tool-call-parser", self.refused("serve", MODEL, "--port", "0", "--chat-template", plain,
                                                                      "--enable-auto-tool-choice"))

    def test_every_command_is_as_loud_as_asked(self):
        def said(**environment):
            run = self.run_cli("generate", MODEL, "--prompt", "a", "--max-tokens", "1", "--ignore-eos",
                               "--compilation-config", '{"level": 3}', **environment)
            self.assertEqual(run.returncode, 0, run.stderr)
            return run.stderr
        self.assertRegex(said(), r"(?s)warning: .*KV cache")
        self.assertRegex(said(VLLM_LOGGING_LEVEL="DEBUG"), r"captured +FULL")
        self.assertRegex(said(VLLM_LOGGING_LEVEL="WARNING"), r"(?s)^warning: ((?!KV cache).)*$")
        self.assertEqual(said(VLLM_LOGGING_LEVEL="ERROR"), "")
        self.assertIn("VLLM_LOGGING_LEVEL: 'LOUD'", self.refused("generate", MODEL, "--prompt", "a", VLLM_LOGGING_LEVEL="LOUD"))

    def test_no_command_says_more_than_asked(self):
        batch = self.write("batch.jsonl", json.dumps(
            {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "a", "max_tokens": 1}}) + "\n")
        short = ("--input-len", "4", "--output-len", "4")
        commands = {
            "generate": (MODEL, "--prompt", "a", "--max-tokens", "1"),
            "explain": (MODEL,), "eval": (MODEL, "--limit", "1"),
            "dump": (MODEL, "--output", self.folder / "dump"),
            "run-batch": ("-i", batch, "-o", self.folder / "answers.jsonl", "--model", MODEL),
            "bench latency": ("--model", MODEL, *short, "--num-iters", "1", "--num-iters-warmup", "0"),
            "bench throughput": ("--model", MODEL, *short, "--num-prompts", "2"),
            "bench startup": ("--model", MODEL, "--num-iters-cold", "1", "--num-iters-warmup", "0"),
        }
        for command, arguments in commands.items():
            with self.subTest(command=command):
                run = self.run_cli(*command.split(), *arguments, VLLM_LOGGING_LEVEL="ERROR")
                self.assertEqual((run.returncode, run.stderr), (0, ""))
                self.assertIn("VLLM_LOGGING_LEVEL: 'LOUD'",
                              self.refused(*command.split(), *arguments, VLLM_LOGGING_LEVEL="LOUD"))
        self.assertEqual(self.run_cli("collect-env", VLLM_LOGGING_LEVEL="LOUD").returncode, 0)

    def test_lazy_capture_gives_the_same_text_and_captures_what_is_used(self):
        def run(*options):
            return self.run_cli("generate", MODEL, "--prompt", "Once upon a time", "--max-tokens", "24", "--ignore-eos",
                                "--temperature", "0", *options)
        eager, lazy = run("--enforce-eager"), run("-cc.cudagraph_lazy_capture=true")
        self.assertEqual(lazy.stdout, eager.stdout)
        self.assertIn("waits for the capture of its graph", lazy.stderr)
        self.assertIn("0 keys took", lazy.stderr)
        self.assertRegex(lazy.stderr, r"replayed FULL 23, PIECEWISE 1, eager 0 steps")
        self.assertIn("several ranks", self.refused("explain", "--tensor-parallel-size", "2", "-cc.cudagraph_lazy_capture=true"))

    def test_graphs_are_verified_as_far_as_asked(self):
        def graphs(*options):
            return json.loads(self.ok("generate", MODEL, "--prompt", "a", "--max-tokens", "2", "--json", *options))["graphs"]
        off = graphs("--verify-graphs", "off")
        num_keys = off["verdicts"]["unchecked"]
        self.assertGreater(num_keys, 10)
        self.assertEqual(off["verify_seconds"], 0)
        for options in ((), ("--verify-graphs=strict",)):
            proved = graphs(*options)
            self.assertEqual(proved["verdicts"],
                             {"unchecked": 0, "proved": num_keys, "partly_proved": 0, "violated": 0, "failed": 0})
            self.assertGreater(proved["verify_seconds"], 0)
        self.assertIn("--verify-graphs always: must be off, capture or strict",
                      self.refused("generate", MODEL, "--prompt", "a", "--verify-graphs", "always"))
        self.assertRegex(self.start(), r"Graph verification: \d+ proved in ")

    def test_shadow_checks_change_no_text_and_are_refused_out_of_range(self):
        def text(*options):
            return self.ok("generate", MODEL, "--prompt", "Once upon a time", "--max-tokens", "24", "--ignore-eos",
                           "--temperature", "0", "--graph-report-dir", self.folder / "reports", *options)
        self.assertEqual(text("--shadow-check-rate", "1"), text())
        self.assertFalse((self.folder / "reports").exists())  # nothing differed
        self.assertIn("expected 0 to 1, got 1.5", self.refused("generate", MODEL, "--shadow-check-rate", "1.5"))
        self.assertIn("needs a folder", self.refused("generate", MODEL, "--graph-report-dir", ""))

    def test_strict_graphs_answer_or_name_what_breaks_the_promise(self):
        def run(*options):
            return self.run_cli("generate", MODEL, "--prompt", "7", "--max-tokens", "8", "--strict-graphs", *options)
        self.assertEqual(run("-cc.cudagraph_mode=FULL").returncode, 0)
        refused = run("-cc.cudagraph_mode=FULL", "--attention-backend", "FLASHINFER")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--strict-graphs: cudagraph_mode FULL was asked for", refused.stderr)

    def test_graph_bisect_repeats_the_step_of_a_report(self):
        config = json.loads((Path(MODEL) / "config.json").read_text(encoding="utf-8"))
        heads, layers = config["num_key_value_heads"], config["num_hidden_layers"]
        head_dim = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
        layout = {"num_layers": layers, "num_kv_heads": heads, "block_size": 16, "head_dim": head_dim,
                  "dtype": "bfloat16", "has_values": True, "has_row_scales": False, "bytes_per_state": 0}
        request = {"token_ids": [5], "positions": [3], "num_computed_tokens": 3, "block_ids": [9], "state_slot": 0,
                   "encoder_len": 0, "encoder_block_ids": [], "second_text_begin": 2**31 - 1, "has_adapter": False,
                   "samples": True, "num_drafts": 0, "num_padding_tokens": 0, "first_prompt_logit": 0,
                   "num_prompt_logits": 0}
        # A replay log describes its engine in the same way.
        log = self.folder / "answers.log"
        self.ok("generate", MODEL, "--prompt", "7", "--max-tokens", "1", "--max-model-len", "64", "--max-num-seqs", "4",
                "--max-num-batched-tokens", "64", "-cc.cudagraph_mode=FULL", "--replay-log", log)
        options = json.loads(log.read_text(encoding="utf-8").splitlines()[0])["options"]
        engine = {"is_draft_head": False, "options": options}
        key = {"runtime_mode": "FULL", "descriptor": {"num_tokens": 1, "num_reqs": 1, "uniform": False,
                                                      "has_lora": False, "num_active_loras": 0}}
        report = {"format": 1, "engine": engine, "key": key, "cache": layout, "requests": [request],
                  "state_file": "step.state"}
        state = bytes(layers * 2 * heads * 16 * head_dim * 2)
        (self.folder / "step.state").write_bytes(state)
        path = self.write("report.json", json.dumps(report))
        self.assertIn("the difference did not come again", self.ok("graph", "bisect", path))
        self.assertEqual(json.loads(self.ok("graph", "bisect", path, "--json", "--level", "0"))["problem"],
                         "the difference did not come again when the step was replayed once more")
        self.assertIn("has no graph", self.refused("graph", "bisect", path, "-cc.cudagraph_mode=PIECEWISE"))
        (self.folder / "step.state").write_bytes(state[:-1])
        self.assertIn("another length", self.refused("graph", "bisect", path))
        self.assertIn("E_REPORT", self.refused("graph", "bisect", self.folder / "none.json"))
        self.assertIn("bisect", self.ok("graph", "--help"))
        self.assertIn("there are: show, diff, bisect", self.refused("graph", "shwo"))

    SMALL = ("--max-model-len", "256", "--max-num-seqs", "8", "--max-num-batched-tokens", "64", "--level", "0",
             "-cc.cudagraph_capture_sizes=[1, 4, 8]", "--context-len", "16")

    def test_graph_show_lists_keys_and_shows_one(self):
        lines = self.ok("graph", "show", MODEL, *self.SMALL).splitlines()
        self.assertEqual(lines[0].split(), ["key", "nodes", "replay", "eager", "tokens", "waste"])
        keys = [line.split()[0] for line in lines[1:]]
        self.assertIn("FULL:tokens=8,reqs=8,uniform", keys)
        self.assertIn("PIECEWISE:tokens=4", keys)
        self.assertTrue(all(len(line) <= 80 for line in lines))
        listed = json.loads(self.ok("graph", "show", MODEL, "--json", "--replays", "1", *self.SMALL))
        self.assertEqual([entry["key"] for entry in listed], keys)
        by_key = {entry["key"]: entry for entry in listed}
        self.assertEqual(by_key["FULL:tokens=8,reqs=8,uniform"]["padding"],
                         {"fewest_tokens": 5, "most_tokens": 8, "mean_share": 0.1875, "largest_share": 0.375})

        page = self.folder / "page.html"
        text = self.ok("graph", "show", MODEL, "FULL:8", "--html", page, "--replays", "3", *self.SMALL)
        self.assertTrue(text.startswith("FULL:tokens=8,reqs=8,uniform of "), text)
        self.assertTrue(all(len(line) <= 80 for line in text.splitlines()), text)
        self.assertIn("8 requests of 1 token, each with 16 tokens in the cache", text)
        root = xml.etree.ElementTree.parse(page).getroot()
        namespace = {"h": "http://www.w3.org/1999/xhtml"}
        profile = json.loads(self.ok("graph", "show", MODEL, "FULL:8", "--json", *self.SMALL))
        rows = root.findall(".//h:table", namespace)[1].findall("h:tr", namespace)
        self.assertEqual(len(rows) - 1, len(profile["nodes"]))
        segments = root.findall(".//h:div[@class='bar']/h:span", namespace)
        self.assertEqual(len(segments), len(profile["nodes"]))
        content = page.read_text(encoding="utf-8")
        self.assertIsNone(re.search(r"<script|\bsrc=|\bhref=|url\(|@import", content))
        nodes = self.ok("graph", "show", MODEL, "FULL:8", "--nodes", *self.SMALL)
        self.assertRegex(nodes, r"(?m)^ +0 +- ")
        self.assertTrue(all(len(line) <= 80 for line in nodes.splitlines()), nodes)

    def test_graph_show_says_what_is_wrong_with_its_arguments(self):
        self.assertIn("FULL:tokens=8,reqs=8,uniform", self.refused("graph", "show", MODEL, "FULL:9", *self.SMALL))
        self.assertIn("do not fit", self.refused("graph", "show", MODEL, "FULL:8", *self.SMALL, "--context-len", "256"))
        self.assertIn("has no graphs", self.refused("graph", "show", MODEL, "FULL:8", "--enforce-eager"))
        self.assertIn("unexpected argument", self.refused("graph", "show", MODEL, "FULL:8", "FULL:4"))
        self.assertIn("needs a model", self.refused("graph", "show"))
        self.assertIn("--replays: expected 1", self.refused("graph", "show", MODEL, "FULL:8", "--replays", "0"))
        self.assertIn("name its key", self.refused("graph", "show", MODEL, "--html", self.folder / "page.html"))
        self.assertIn("name its key", self.refused("graph", "show", MODEL, "--nodes"))
        self.assertIn("cannot be written", self.refused("graph", "show", MODEL, "FULL:8", "--html", "/none/page.html"))
        self.assertIn("--context-len", self.ok("graph", "show", "--help=all"))

    def test_graph_diff_compares_files_and_keys(self):
        profile = json.loads(self.ok("graph", "show", MODEL, "FULL:8", "--json", *self.SMALL))
        profile["replay_us"] = {"median": 100, "low": 99, "high": 101}  # a busy machine has wider ones
        one = self.write("one.json", json.dumps(profile))
        same = self.run_cli("graph", "diff", one, one)
        self.assertEqual((same.returncode, same.stdout.splitlines()[0]),
                         (0, "A and B take the same time within their spread, with the same nodes"))
        profile["nodes"][2]["kernel"] += "_v2"
        profile["replay_us"] = {name: 2 * time for name, time in profile["replay_us"].items()}
        profile["engine"]["version"] = "next"
        two = self.write("two.json", json.dumps(profile))
        differs = self.run_cli("graph", "diff", one, two)
        self.assertEqual(differs.returncode, 1)
        self.assertEqual(differs.stdout.splitlines()[0],
                         "B is 100 % slower than A, with other nodes (1 with another kernel)")
        self.assertIn(", next", differs.stdout)
        self.assertTrue(all(len(line) <= 80 for line in differs.stdout.splitlines()), differs.stdout)
        as_json = json.loads(self.run_cli("graph", "diff", one, two, "--json").stdout)
        self.assertEqual([node["a"] for node in as_json["nodes"] if node["has_other_kernel"]], [2])
        keys = self.run_cli("graph", "diff", MODEL, "FULL:8", "PIECEWISE:8", *self.SMALL, "--nodes")
        self.assertIn(keys.returncode, (0, 1), keys.stderr)
        self.assertIn("A         FULL:tokens=8,reqs=8,uniform of ", keys.stdout)
        self.assertIn("B         PIECEWISE:tokens=8 of ", keys.stdout)
        self.assertNotIn("with other bytes", keys.stdout)  # both replay the same step
        one_request = self.ok("graph", "show", MODEL, "PIECEWISE:8", "--replays", "1", *self.SMALL)
        self.assertIn("1 request of 8 tokens", one_request)
        four = self.ok("graph", "show", MODEL, "PIECEWISE:8", "--requests", "4", "--replays", "1", *self.SMALL)
        self.assertIn("4 requests of 2 tokens", four)

        self.assertIn("E_PROFILE", self.refused("graph", "diff", one, self.folder / "none.json"))
        self.assertIn("E_PROFILE", self.refused("graph", "diff", one, self.write("bad.json", "{")))
        self.assertIn("E_PROFILE", self.refused("graph", "diff", self.write("bad.json", '{"format": 1}'), one))
        self.assertIn("expected two files", self.refused("graph", "diff", one))
        self.assertIn("unknown option", self.refused("graph", "diff", one, two, "--level", "0"))

    def test_the_log_is_as_loud_as_asked(self):
        self.assertNotIn("KV cache", self.start("--quiet"))
        self.assertNotIn("KV cache", self.start(VLLM_LOGGING_LEVEL="error"))
        self.assertNotIn("KV cache", self.start("--log-level", "ERROR", VLLM_LOGGING_LEVEL="INFO"))
        self.assertIn("KV cache", self.start("--log-level", "INFO", VLLM_LOGGING_LEVEL="ERROR"))
        self.assertIn("--log-level: 'LOUD'", self.refused("serve", MODEL, "--log-level", "LOUD"))
        self.assertIn("\033[32mINFO", self.start(VLLM_LOGGING_COLOR="1"))
        self.assertNotIn("\033", self.start(VLLM_LOGGING_COLOR="1", NO_COLOR="1"))
        self.assertIn("VLLM_LOGGING_LEVEL: 'LOUD'", self.refused("serve", MODEL, VLLM_LOGGING_LEVEL="LOUD"))


class FullDisk(Server):
    """The exit code of a command whose standard output is full is 1, whatever it prints and whenever it flushes."""

    def fails(self, *arguments):
        with self.subTest(arguments[0]), open("/dev/full", "wb") as full:
            run = subprocess.run([BINARY, *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                                 stdin=subprocess.DEVNULL, timeout=TIMEOUT, env={"PATH": os.environ["PATH"], "HOME": str(self.folder)})
            self.assertEqual(run.returncode, 1, f"{arguments}: {run.stderr}")
            self.assertRegex(run.stderr, "could not be written|cannot write|No space left")

    def test_every_command_says_that_its_result_is_lost(self):
        short = ("--input-len", "4", "--output-len", "4", "--enforce-eager")
        prompt = (MODEL, "--prompt", "a", "--max-tokens", "2", "--ignore-eos", "--enforce-eager")
        for arguments in (
            ("--help",), ("--version",), ("serve", "--help"), ("serve", MODEL, "--dump-config"), ("bench", "--help"),
            ("generate", *prompt), ("generate", *prompt, "--no-stream"), ("generate", *prompt, "--json"),
            ("generate", *prompt, "--prompt", "b"),
            ("explain", MODEL), ("explain", MODEL, "--json"), ("eval", MODEL, "--limit", "1", "--enforce-eager"),
            ("dump", MODEL), ("collect-env",), ("completion", "bash"), ("man",), ("man", "serve"), ("reference", "environment"),
            ("bench", "latency", "--model", MODEL, *short, "--num-iters", "1", "--num-iters-warmup", "0"),
            ("bench", "throughput", "--model", MODEL, *short, "--num-prompts", "2"),
            ("bench", "startup", "--model", MODEL, "--num-iters-cold", "1", "--num-iters-warmup", "0"),
        ):
            self.fails(*arguments)

    def test_clients_of_a_server_say_it_too(self):
        with self.serving("--enforce-eager") as url:
            self.fails("bench", "serve", "--base-url", url, "--num-prompts", "2", "--random-input-len", "4",
                       "--random-output-len", "4", "--dataset-name", "random")
            self.fails("chat", "--url", url + "/v1", "--quick", "a")
            self.fails("complete", "--url", url + "/v1", "--quick", "a")


class LostMessages(Case):
    """Standard error that is full or closed changes neither results nor exit codes."""

    def lost(self, code, *arguments):
        for name, stream, before in (("full", open("/dev/full", "wb"), None), ("closed", None, lambda: os.close(2))):  # noqa: SIM115
            with self.subTest(name=name, command=arguments[0]):
                run = subprocess.run([BINARY, *map(str, arguments)], stdout=subprocess.PIPE, stderr=stream, preexec_fn=before, check=False,
                                     stdin=subprocess.DEVNULL, timeout=TIMEOUT, env={"PATH": os.environ["PATH"], "HOME": str(self.folder)})
                self.assertEqual(run.returncode, code, run.stdout)
                self.assertEqual(bool(run.stdout), code == 0, run.stdout)
            if stream:
                stream.close()

    def test_results_come_without_messages(self):
        log = self.folder / "answers.log"
        self.lost(0, "generate", MODEL, "--prompt", "a", "--max-tokens", "2", "--ignore-eos", "--replay-log", log)
        for line in log.read_text().splitlines():
            json.loads(line)  # no message went into the file
        self.lost(0, "dump", MODEL)
        self.lost(0, "replay", log)

    def test_a_limit_of_file_sizes_is_like_a_full_disk(self):
        log = self.folder / "answers.log"
        for quantization in ("none", "q8_0"):  # q8_0: there is a cache of packed weights too
            run = subprocess.run(
                [BINARY, "generate", MODEL, "--prompt", "a", "--max-tokens", "2", "--ignore-eos", "--quantization", quantization,
                 "--replay-log", str(log)],
                capture_output=True, text=True, timeout=TIMEOUT, check=False, env={"PATH": os.environ["PATH"], "HOME": str(self.folder)},
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
            self.assertEqual(run.returncode, 0, run)
            self.assertTrue(run.stdout)
            self.assertIn("cannot be written: File too large", run.stderr)

    def test_errors_keep_their_exit_codes(self):
        self.lost(2, "nosuch")
        self.lost(2, "explain", "nosuch")
        self.lost(2, "generate", MODEL, "--prompt", "a", "--stop", "")


class Pages(Case):
    def test_help_of_every_command_is_grouped_and_answers_h(self):
        for command in COMMANDS:
            words = command.split()
            self.assertEqual(self.ok(*words, "-h"), self.ok(*words, "--help"))
            self.assertIn("usage: reprise " + command, self.ok(*words, "--help"))
        self.assertIn("--max-num-seqs N", self.ok("serve", "--help=max"))
        self.assertNotIn("--port", self.ok("serve", "--help=Scheduler"))

    def test_manual_pages_render_without_a_warning(self):
        renderers = []
        if shutil.which("groff"):
            renderers.append(["groff", "-man", "-Tutf8", "-ww", "-z"])
        if shutil.which("mandoc"):
            renderers.append(["mandoc", "-Tlint", "-Wwarning"])
        if not renderers:
            self.skipTest("neither groff nor mandoc is here")
        for words in [[], *(command.split() for command in COMMANDS), ["completion"], ["collect-env"]]:
            page = self.ok("man", *words)
            for renderer in renderers:
                with self.subTest(f"{renderer[0]} {words}"):
                    run = subprocess.run(renderer, input=page, capture_output=True, text=True, timeout=TIMEOUT, check=False)
                    self.assertEqual((run.returncode, run.stdout + run.stderr), (0, ""), page)

    def test_shells_complete_commands_options_and_values(self):
        bash = self.write("c.bash", self.ok("completion", "bash"))
        def complete(*words):
            script = (f"PATH={Path(BINARY).parent}:$PATH; source {bash}; COMP_WORDS=({' '.join(repr(w) for w in words)}); "
                      "COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _reprise; printf '%s\\n' \"${COMPREPLY[@]}\"")
            return subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=TIMEOUT, check=True).stdout.split()
        self.assertIn("serve", complete("reprise", "se"))
        self.assertEqual(complete("reprise", "serve", "--max-num-se"), ["--max-num-seqs"])
        self.assertEqual(complete("reprise", "serve", "--load-format", "d"), ["dummy"])
        self.assertIn("--no-enforce-eager", complete("reprise", "generate", "m", "--no-enf"))
        for shell, check in (("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])):
            script = self.write("c." + shell, self.ok("completion", shell))
            if shutil.which(shell):
                subprocess.run([*check, script], check=True, timeout=TIMEOUT)
        if shutil.which("fish"):
            run = subprocess.run(["fish", "-c", f"set -x PATH {Path(BINARY).parent} $PATH; source {self.folder}/c.fish; complete -C 'reprise serve --max-num-s'"],
                                 capture_output=True, text=True, timeout=TIMEOUT, check=True, env={**os.environ, "HOME": str(self.folder)})
            self.assertIn("--max-num-seqs", run.stdout)
        self.refused("completion", "tcsh")

    def test_the_report_of_the_environment_keeps_secrets(self):
        text = self.ok("collect-env", VLLM_API_KEY="hush", REPRISE_CACHE_ROOT=str(self.folder), VLLM_LOGGING_LEVEL="DEBUG")
        self.assertNotIn("hush", text)
        self.assertNotIn(str(self.folder), text)
        for part in ("VLLM_API_KEY = (hidden)", "REPRISE_CACHE_ROOT = (a path)", "VLLM_LOGGING_LEVEL = DEBUG", "processor", "memory"):
            self.assertIn(part, text)

    def test_every_variable_that_the_source_reads_is_documented(self):
        documented = set(re.findall(r"^\| `(\w+)`", self.ok("reference", "environment"), re.MULTILINE))
        read = set()
        for path in (Path(SOURCE) / "src").rglob("*.cpp"):
            if path.name.endswith("_test.cpp"):
                continue
            read |= set(re.findall(r'(?:getenv|look_up_process_environment|is_on|environment)\("(\w+)"\)', path.read_text(encoding="utf-8")))
        self.assertTrue(read)
        self.assertEqual(read - documented, set())
        page = (Path(SOURCE) / "docs/reference/environment.md").read_text(encoding="utf-8")
        for name in documented:
            self.assertIn(f"`{name}`", page)


if __name__ == "__main__":
    BINARY, MODEL, SOURCE = (str(Path(argument).resolve()) for argument in sys.argv[1:4])
    unittest.main(argv=sys.argv[:1])
