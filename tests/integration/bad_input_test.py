#!/usr/bin/env python3
"""Bad files and bad flags, through the built binary, as a user meets them.

    bad_input_test.py REPRISE_BINARY MODEL_FOLDER [--sanitized]

Every case must end with exit code 2 (never a signal), a message on stderr that names the file or flag and
the field, less than 2 s of CPU time, and at most 64 MiB of memory above a run that is refused at once.
F01, F02, ... number the cases. Uses only Python's standard library.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY = MODEL = None
SANITIZED = False
MAX_EXTRA_KIB = 64 * 1024
MAX_CPU_SECONDS = 2.0


class Outcome:
    def __init__(self, arguments, stdin=b""):
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as source:
            source.write(stdin)
            source.seek(0)
            child = subprocess.Popen([BINARY, *map(str, arguments)], stdin=source, stdout=out, stderr=err)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            err.seek(0)
            self.stderr = err.read().decode("utf-8", "replace")
        self.code = child.returncode
        self.cpu_seconds = usage.ru_utime + usage.ru_stime
        self.peak_kib = usage.ru_maxrss


def generate(folder, *options):
    return Outcome(["generate", folder, "--prompt", "One", "--max-tokens", "1", *options])


# --- ways to break a model folder ---------------------------------------------------------------------


def read_safetensors(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def write_safetensors(path, header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def weights(change):
    """Breaks model.safetensors: `change(header, data)` returns the new pair."""

    def apply(folder):
        path = folder / "model.safetensors"
        write_safetensors(path, *change(*read_safetensors(path)))

    return apply


def tensor(header, index=0):
    names = sorted((n for n in header if n != "__metadata__"), key=lambda n: header[n]["data_offsets"])
    return names[index], header[names[index]]


def with_entry(index=0, **changes):
    def change(header, data):
        tensor(header, index)[1].update(changes)
        return header, data

    return weights(change)


def overlap(header, data):
    first, second = tensor(header, 0)[1], tensor(header, 1)[1]
    second["data_offsets"][0] = first["data_offsets"][1] - 2
    second["shape"] = [(second["data_offsets"][1] - second["data_offsets"][0]) // 2]
    return header, data


def gap(header, data):
    name, entry = tensor(header, 1)
    entry["data_offsets"][0] += 2
    entry["shape"] = [(entry["data_offsets"][1] - entry["data_offsets"][0]) // 2]
    return header, data


def drop_last(header, data):
    name, entry = tensor(header, -1)
    del header[name]
    return header, data[: entry["data_offsets"][0]]


def raw(content, name="model.safetensors"):
    return lambda folder: (folder / name).write_bytes(content)


def cut(name, part):
    def apply(folder):
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: int(len(data) * part)] if part < 1 else data[:-1])

    return apply


def sparse(name, size):
    """A file of that size that takes no space."""

    def apply(folder):
        with open(folder / name, "wb") as file:
            file.truncate(size)

    return apply


def remove(name):
    return lambda folder: (folder / name).unlink()


def config(**changes):
    return edit_json("config.json", lambda document: document.update(changes))


def edit_json(name, change):
    def apply(folder):
        document = json.loads((folder / name).read_text())
        change(document)
        # json.dumps would refuse to write 1e400 as a number.
        (folder / name).write_text(json.dumps(document).replace('"1e400"', "1e400"))

    return apply


def index(weight_map, **shards):
    """Replaces the one file by an index; `shards` names copies of it to make."""

    def apply(folder):
        header, _ = read_safetensors(folder / "model.safetensors")
        names = [n for n in header if n != "__metadata__"]
        document = {"metadata": {}, "weight_map": weight_map(names)}
        for shard in shards:
            shutil.copy(folder / "model.safetensors", folder / f"{shard}.safetensors")
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors.index.json").write_text(json.dumps(document))

    return apply


def all_in(shard):
    return lambda names: {name: shard for name in names}


def huge_header(length):
    return lambda folder: (folder / "model.safetensors").write_bytes(
        struct.pack("<Q", length) + (folder / "model.safetensors").read_bytes()[8:]
    )


def normalizers(depth):
    def change(document):
        inner = {"type": "NFC"}
        for _ in range(depth):
            inner = {"type": "Sequence", "normalizers": [inner]}
        document["normalizer"] = inner

    def apply(folder):
        path = folder / "tokenizer.json"
        document = json.loads(path.read_text())
        document["normalizer"] = "@@"
        nested = '{"type":"Sequence","normalizers":[' * depth + '{"type":"NFC"}' + "]}" * depth
        path.write_text(json.dumps(document).replace('"@@"', nested))

    return apply


def moved_outside(name):
    """The file is complete, but it lies beside the folder."""

    def apply(folder):
        if not (folder / name).exists():
            (folder / name).write_text("{}")
        shutil.move(folder / name, folder.parent / name)
        (folder / name).symlink_to(folder.parent / name)

    return apply


def symlink_outside(folder):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("/etc/passwd")


def directory_as_weights(folder):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").mkdir()


def fifo_as_weights(folder):
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")


def deep_config(folder):
    (folder / "config.json").write_text('{"a":' + "[" * 100000 + "]" * 100000 + "}")


W = "model.safetensors"
I = "model.safetensors.index.json"
EMBEDDING = "model.embed_tokens.weight"

# id, how the folder is broken, what stderr must contain
FILE_CASES = [
    ("F01 0 bytes", raw(b""), [W, "E_TRUNCATED"]),
    ("F01 7 bytes", raw(b"\1\0\0\0\0\0\0"), [W, "E_TRUNCATED"]),
    ("F01 8 bytes", raw(struct.pack("<Q", 2)), [W]),
    ("F02 header of 2^64-1 bytes", huge_header(2**64 - 1), [W, "E_HEADER_SIZE"]),
    ("F02 header of 100 000 001 bytes", huge_header(100_000_001), [W, "E_HEADER_SIZE"]),
    ("F02 header beyond the end", huge_header(10_000_000), [W]),
    ("F03 header is not UTF-8", weights(lambda h, d: (b'{"\xff\xfe":{}}', d)), [W, "E_HEADER_JSON"]),
    ("F03 header does not begin with a brace", weights(lambda h, d: (b"[1, 2]", d)), [W, "E_HEADER_JSON"]),
    ("F03 header cut", weights(lambda h, d: (json.dumps(h).encode()[:-9], d)), [W, "E_HEADER_JSON"]),
    ("F04 begin after end", with_entry(data_offsets=[8, 4]), [W, "E_OFFSET"]),
    ("F04 end beyond the data", with_entry(-1, data_offsets=[0, 10**12]), [W, "E_"]),
    ("F04 negative offset", with_entry(data_offsets=[-8, 4]), [W, "E_OFFSET"]),
    ("F05 overlap", weights(overlap), [W, "E_OVERLAP"]),
    ("F05 gap", weights(gap), [W, "E_GAP"]),
    ("F05 bytes after the last tensor", weights(lambda h, d: (h, d + b"12")), [W, "E_TRAILING"]),
    ("F06 shape overflows", with_entry(shape=[2**40, 2**40]), [W, "E_SHAPE"]),
    ("F06 bytes are not shape x dtype", with_entry(shape=[3, 5]), [W, "E_SHAPE"]),
    ("F07 unknown dtype", with_entry(dtype="BF17"), [W, "E_DTYPE", "BF17"]),
    ("F07 negative dimension", with_entry(shape=[-1, 128]), [W, "E_SHAPE"]),
    ("F07 fractional dimension", with_entry(shape=[1.5, 128]), [W, "E_SHAPE"]),
    ("F08 duplicate tensor", weights(lambda h, d: (json.dumps(h)[:-1].encode() + b"," + json.dumps(dict([tensor(h)])).encode()[1:], d)), [W, "E_DUPLICATE"]),
    ("F09 one byte missing", cut(W, 1), [W, "E_TRUNCATED"]),
    ("F09 half missing", cut(W, 0.5), [W, "E_TRUNCATED"]),
    ("F11 no weights at all", remove(W), [W, "E_MISSING"]),
    ("F11 a tensor missing", weights(drop_last), ["E_MISSING", "model."]),
    ("F12 shape differs from config", config(hidden_size=256, head_dim=32), ["E_SHAPE_MISMATCH", EMBEDDING, "128", "256"]),
    ("F13 index leads up", index(all_in("../../etc/passwd")), [I, "E_PATH", "../../etc/passwd"]),
    ("F13 index leads to the root", index(all_in("/etc/passwd")), [I, "E_PATH", "/etc/passwd"]),
    ("F13 index leads into a folder", index(all_in("eval/problems.jsonl")), [I, "E_PATH"]),
    ("F13 link out of the folder", symlink_outside, [W, "E_PATH"]),
    *((f"F13 {name} leads out of the folder", moved_outside(name), [name, "E_PATH"])
      for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
                   "config.json", "generation_config.json")),
    ("F13 weights are a folder", directory_as_weights, [W, "E_NOT_REGULAR"]),
    ("F13 weights are a pipe", fifo_as_weights, [W, "E_NOT_REGULAR"]),
    ("F14 shard missing", index(all_in("gone.safetensors")), ["gone.safetensors", "E_MISSING"]),
    ("weights are a pointer of Git LFS", raw(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 9\n"), [W, "git lfs pull"]),
    ("tokenizer is a pointer of Git LFS", raw(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 9\n", "tokenizer.json"), ["tokenizer.json", "git lfs pull"]),
    ("F14 tensors in two shards", index(lambda n: {m: "ab"[i % 2] + ".safetensors" for i, m in enumerate(n)}, a=1, b=1), ["E_INDEX"]),
    ("F14 weight_map is a list", index(lambda n: n), [I, "E_INDEX", "weight_map"]),
    ("F15 hidden_size 0", config(hidden_size=0), ["config.json", "hidden_size", "E_CONFIG"]),
    ("F15 hidden_size -1", config(hidden_size=-1), ["config.json", "hidden_size", "E_CONFIG"]),
    ("F15 hidden_size 2^31", config(hidden_size=2**31), ["config.json", "hidden_size", "E_CONFIG"]),
    ("F15 hidden_size 10^9", config(hidden_size=10**9), ["config.json", "hidden_size", "E_CONFIG"]),
    ("F15 hidden_size is text", config(hidden_size="128"), ["config.json", "hidden_size", "E_CONFIG"]),
    ("F15 heads do not divide", config(num_key_value_heads=3), ["config.json", "num_key_value_heads", "E_CONFIG"]),
    ("F15 layers 10^9", config(num_hidden_layers=10**9), ["config.json", "num_hidden_layers", "E_CONFIG"]),
    ("F15 unknown architecture", config(architectures=["LlamaForCausalLMX"]), ["config.json", "architectures"]),
    ("F16 vocab_size is not the embedding's", config(vocab_size=2048), ["E_SHAPE_MISMATCH", EMBEDDING]),
    ("F16 vocab_size 10^9", config(vocab_size=10**9), ["config.json", "vocab_size"]),
    ("F18 rope factor 0", config(rope_scaling={"rope_type": "linear", "factor": 0}), ["config.json", "rope_scaling", "E_CONFIG"]),
    ("F18 rope factor negative", config(rope_scaling={"rope_type": "linear", "factor": -2.0}), ["config.json", "rope_scaling", "E_CONFIG"]),
    ("F18 rope factor 1e400", config(rope_scaling={"rope_type": "linear", "factor": "1e400"}), ["config.json", "E_CONFIG"]),
    ("F19 tokenizer cut in half", cut("tokenizer.json", 0.5), ["tokenizer.json", "E_TRUNCATED"]),
    ("F19 tokenizer of 300 MB", sparse("tokenizer.json", 300_000_000), ["tokenizer.json"]),
    ("F19 tokenizer missing", remove("tokenizer.json"), ["tokenizer.json", "no such file", "E_TOKENIZER"]),
    ("F20 merge of unknown tokens", edit_json("tokenizer.json", lambda d: d["model"]["merges"].append(["\u0122\u0122", "\u0123q"])), ["tokenizer.json", "E_TOKENIZER"]),
    ("F20 duplicate id", edit_json("tokenizer.json", lambda d: d["model"]["vocab"].update(zzzzz=300)), ["tokenizer.json", "E_TOKENIZER"]),
    ("F20 id is negative", edit_json("tokenizer.json", lambda d: d["model"]["vocab"].update(zzzzz=-1)), ["tokenizer.json", "E_TOKENIZER"]),
    ("F20 id of 2^31", edit_json("tokenizer.json", lambda d: d["model"]["vocab"].update(zzzzz=2**31)), ["tokenizer.json", "E_TOKENIZER"]),
    ("F22 added token without content", edit_json("tokenizer.json", lambda d: d["added_tokens"][0].update(content="")), ["tokenizer.json", "E_TOKENIZER"]),
    ("F23 normalizers nested 10 000 deep", normalizers(10_000), ["tokenizer.json", "E_"]),
    ("tokenizer without a model", edit_json("tokenizer.json", lambda d: d.pop("model")), ["tokenizer.json", "model", "E_TOKENIZER"]),
    ("config missing", remove("config.json"), ["config.json", "E_MISSING"]),
    ("config cut", cut("config.json", 0.5), ["config.json", "E_CONFIG"]),
    ("config is a list", raw(b"[]", "config.json"), ["config.json", "E_CONFIG"]),
    ("config nested 100 000 deep", deep_config, ["config.json", "E_"]),
    ("config of 300 MB", sparse("config.json", 300_000_000), ["config.json", "E_TOO_LARGE"]),
    ("config with a repeated key", raw(b'{"hidden_size": 1, "hidden_size": 2}', "config.json"), ["config.json", "E_CONFIG"]),
    ("generation config cut", cut("generation_config.json", 0.5), ["generation_config.json", "E_CONFIG"]),
    ("generation config with text for a number", edit_json("generation_config.json", lambda d: d.update(temperature="warm")), ["generation_config.json", "temperature"]),
    ("generation config out of range", edit_json("generation_config.json", lambda d: d.update(top_p=7)), ["top_p"]),
    ("chat template that never ends", edit_json("tokenizer_config.json", lambda d: d.update(chat_template="{% for x in y %}")), ["tokenizer_config.json", "chat_template", "E_TEMPLATE"]),
    ("tokenizer config cut", cut("tokenizer_config.json", 0.5), ["tokenizer_config.json"]),
]

# what is wrong, arguments after `generate MODEL --prompt One`, what stderr must contain
FLAG_CASES = [
    ("unknown option", ["--max-num-seq", "4"], ["--max-num-seq", "did you mean --max-num-seqs"]),
    ("unknown dtype", ["--dtype", "int8"], ["--dtype", "int8"]),
    ("no requests", ["--max-num-seqs", "0"], ["--max-num-seqs", "0"]),
    ("negative requests", ["--max-num-seqs=-4"], ["--max-num-seqs", "-4"]),
    ("requests are words", ["--max-num-seqs", "many"], ["--max-num-seqs", "many"]),
    ("no tokens", ["--max-num-batched-tokens", "0"], ["--max-num-batched-tokens"]),
    ("fewer tokens than requests", ["--max-num-batched-tokens", "16", "--max-num-seqs", "32"], ["16", "32"]),
    ("too many positions", ["--max-model-len", "99999"], ["--max-model-len", "99999", "1024"]),
    ("no block", ["--block-size", "0"], ["--block-size"]),
    ("no cache", ["--kv-cache-memory-bytes", "5"], ["--kv-cache-memory-bytes", "5"]),
    ("unknown instruction set", ["--cpu-isa", "z80"], ["--cpu-isa", "z80", "scalar"]),
    ("threads below zero", ["--num-threads=-1"], ["threads", "-1"]),
    ("load format of other files", ["--load-format", "tensorizer"], ["--load-format", "tensorizer"]),
    ("unknown load format", ["--load-format", "gguff"], ["--load-format", "gguff"]),
    ("unknown compilation key", ["-cc.cudagraph_mod", "FULL"], ["cudagraph_mod", "cudagraph_mode"]),
    ("unknown compilation key in JSON", ["-cc", '{"cudagraph_mod": "FULL"}'], ["cudagraph_mod", "cudagraph_mode"]),
    ("unknown mode", ["-cc.cudagraph_mode", "FULLL"], ["FULLL", "FULL_DECODE_ONLY"]),
    ("broken JSON", ["-cc", "{"], ["--compilation-config"]),
    ("level out of range", ["-cc.level=9"], ["9"]),
    ("contradicting keys", ["-cc", '{"use_cudagraph": false, "full_cuda_graph": true}'], ["use_cudagraph", "full_cuda_graph"]),
    ("capture sizes are words", ["-cc", '{"cudagraph_capture_sizes": ["a"]}'], ["cudagraph_capture_sizes"]),
    ("capture size below one", ["-cc", '{"cudagraph_capture_sizes": [0, 4]}'], ["cudagraph_capture_sizes"]),
    ("optimization level", ["-O7"], ["7"]),
    ("temperature is not a number", ["--temperature", "nan"], ["--temperature", "nan"]),
    ("temperature too high", ["--temperature", "9"], ["temperature", "9"]),
    ("no tokens wanted", ["--max-tokens", "0"], ["max_tokens", "0"]),
    ("top_p above one", ["--top-p", "1.5"], ["top_p", "1.5"]),
    ("value missing", ["--dtype"], ["--dtype"]),
    ("second model", ["another"], ["another"]),
]

COMMAND_CASES = [
    ("unknown command", ["generat"], ["generat", "did you mean 'generate'"]),
    ("no command", [], []),
    ("no model", ["generate", "--prompt", "x"], ["model"]),
    ("no prompt", ["generate", "MODEL"], ["--prompt"]),
    ("empty prompt", ["generate", "MODEL", "--prompt", ""], ["empty"]),
    ("model is not there", ["generate", "nowhere/at/all", "--prompt", "x"], ["nowhere/at/all", "E_MISSING"]),
    ("model is a file", ["generate", "MODEL/config.json", "--prompt", "x"], ["config.json", "E_NOT_DIRECTORY"]),
    ("unknown benchmark", ["bench", "nothing"], ["nothing"]),
    ("problems are not there", ["eval", "MODEL", "--problems", "nowhere.jsonl"], ["nowhere.jsonl"]),
    ("batch that is none", ["explain", "--batch", "foo"], ["foo"]),
    ("batch beyond the limits", ["explain", "--batch", "decode:99999999999999"], ["decode:99999999999999"]),
    ("support that is none", ["explain", "--attention-support", "SOMETIMES"], ["SOMETIMES", "UNIFORM_BATCH"]),
]


class BadInput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.baseline_kib = Outcome(["generate", "nowhere/at/all", "--prompt", "x"]).peak_kib

    def check(self, outcome, expected):
        self.assertEqual(outcome.code, 2, f"exit code; stderr: {outcome.stderr}")
        self.assertTrue(outcome.stderr.strip() or not expected, "nothing on stderr")
        for text in expected:
            self.assertIn(text, outcome.stderr)
        self.assertLess(outcome.cpu_seconds, MAX_CPU_SECONDS * (10 if SANITIZED else 1))

    def check_memory(self, outcome):
        # A sanitizer uses much memory itself, so the limit holds only without one.
        if not SANITIZED:
            self.assertLess(outcome.peak_kib - self.baseline_kib, MAX_EXTRA_KIB, f"KiB of memory; stderr: {outcome.stderr}")

    def test_the_unbroken_folder_works(self):
        self.assertEqual(generate(MODEL).code, 0)

    def test_files(self):
        for name, break_folder, expected in FILE_CASES:
            with self.subTest(name), tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch) / "model"
                shutil.copytree(MODEL, folder)
                break_folder(folder)
                outcome = generate(folder)
                self.check(outcome, expected)
                self.check_memory(outcome)

    def test_flags(self):
        for name, options, expected in FLAG_CASES:
            with self.subTest(name):
                self.check(Outcome(["generate", MODEL, "--prompt", "One", *options]), expected)

    def test_commands(self):
        for name, arguments, expected in COMMAND_CASES:
            with self.subTest(name):
                placed = [a.replace("MODEL", str(MODEL)) if a.startswith("MODEL") else a for a in arguments]
                self.check(Outcome(placed), expected)

    def test_a_prompt_that_is_too_long_is_refused_with_both_numbers(self):
        outcome = Outcome(["generate", MODEL, "--prompt", "-", "--max-model-len", "64"], b"One more word. " * 100)
        self.check(outcome, ["max_model_len", "64"])

    def test_a_prompt_of_a_megabyte_is_refused_soon(self):
        self.check(Outcome(["generate", MODEL, "--prompt", "-"], b"abc \xf0\x9f\x8c\x8d" * 131072), ["max_model_len"])

    def test_tolerated_oddities_warn_and_run(self):
        for name, change, expected in [
            ("F17 auto_map", config(auto_map={"AutoModel": "evil.Model"}), "auto_map"),
            ("F14 tensor not in its shard", index(lambda n: {**all_in("a.safetensors")(n), "extra.weight": "a.safetensors"}, a=1), "extra.weight"),
            ("override that nothing reads", config(), "rope_scalling"),
            ("F11 extra tensor", weights(lambda h, d: ({**h, "odd.weight": {"dtype": "BF16", "shape": [1], "data_offsets": [len(d), len(d) + 2]}}, d + b"\0\0")), "odd.weight"),
        ]:
            with self.subTest(name), tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch) / "model"
                shutil.copytree(MODEL, folder)
                change(folder)
                outcome = generate(folder, *(["--hf-overrides", json.dumps({"rope_scalling": 2})] if "override" in name else []))
                self.assertEqual(outcome.code, 0, outcome.stderr)
                self.assertIn(expected, outcome.stderr)

    def test_an_answer_that_fails_fails_the_command(self):
        def not_numbers(header, data):
            start, end = header["model.norm.weight"]["data_offsets"]
            return header, data[:start] + b"\xc0\x7f" * ((end - start) // 2) + data[end:]  # NaN in bfloat16

        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "model"
            shutil.copytree(MODEL, folder)
            weights(not_numbers)(folder)
            for options in ([], ["--json"], ["--prompt", "Two"]):
                with self.subTest(options):
                    outcome = generate(folder, *options)
                    self.assertEqual(outcome.code, 1, outcome.stderr)
                    self.assertIn("NaN" if options != ["--json"] else "", outcome.stderr)


if __name__ == "__main__":
    SANITIZED = "--sanitized" in sys.argv
    BINARY, MODEL = sys.argv[1], Path(sys.argv[2])
    unittest.main(argv=sys.argv[:1])
