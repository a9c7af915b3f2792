#!/usr/bin/env python3
"""--quantization, and GPTQ and AWQ checkpoints: the tokens of the same weights as numbers.

    quantization_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER BINARY_WITH_AMX_SOFTWARE

Uses only Python's standard library.
"""

import bisect
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import gguf_test

BINARY = MODEL = SOURCE = WITH_AMX_SOFTWARE = None
TIMEOUT = 300
GROUP = 32
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # of the outputs in a word
OPTIONS = ("--prompt", "Once upon a time", "--prompt", "The cat sat", "--ignore-eos", "--temperature", "0",
           "--dtype", "float32")


FUSED = ("-cc.pass_config", '{"fuse_attn_quant": true}')
# Sums in another order change a few codes by one.
STATIC_INT8_ERROR = 0.005


def half(value):
    return struct.unpack("<e", struct.pack("<e", value))[0]


def four_bits(rows):
    """Codes, zeros and scales of rows in groups of GROUP elements, and the values that they stand for."""
    codes, zeros, scales, values = [], [], [], []
    for row in rows:
        row_codes, row_zeros, row_scales, row_values = [], [], [], []
        for begin in range(0, len(row), GROUP):
            group = row[begin : begin + GROUP]
            least, most = min(min(group), 0.0), max(max(group), 0.0)
            scale = half((most - least) / 15 or 1e-4)
            zero = min(max(round(-least / scale), 1), 15)
            group_codes = [min(max(round(value / scale) + zero, 0), 15) for value in group]
            row_codes += group_codes
            row_zeros.append(zero)
            row_scales.append(scale)
            row_values += [scale * (code - zero) for code in group_codes]
        codes.append(row_codes)
        zeros.append(row_zeros)
        scales.append(row_scales)
        values.append(row_values)
    return codes, zeros, scales, values


def words(numbers, order=range(8)):
    """Rows of four-bit numbers, eight to a word."""
    packed = []
    for row in numbers:
        for begin in range(0, len(row), 8):
            packed.append(sum((row[begin + place] & 15) << (4 * i) for i, place in enumerate(order)))
    return struct.pack(f"<{len(packed)}I", *packed)


def transposed(matrix):
    return [list(column) for column in zip(*matrix)]


def floats(matrix):
    flat = [value for row in matrix for value in row]
    return struct.pack(f"<{len(flat)}f", *flat)


def gptq_tensors(module, codes, zeros, scales):
    outputs, depth = len(codes), len(codes[0])
    columns = transposed(codes)  # [depth][outputs]
    packed = []
    for begin in range(0, depth, 8):
        for n in range(outputs):
            packed.append(sum(columns[begin + i][n] << (4 * i) for i in range(8)))
    flat_scales = [value for row in transposed(scales) for value in row]
    groups = depth // GROUP
    return {
        f"{module}.qweight": ("I32", [depth // 8, outputs], struct.pack(f"<{len(packed)}I", *packed)),
        f"{module}.qzeros": ("I32", [groups, outputs // 8],
                             words([[zero - 1 for zero in row] for row in transposed(zeros)])),
        f"{module}.scales": ("F16", [groups, outputs], struct.pack(f"<{len(flat_scales)}e", *flat_scales)),
        f"{module}.g_idx": ("I32", [depth], struct.pack(f"<{depth}i", *(k // GROUP for k in range(depth)))),
    }


def awq_tensors(module, codes, zeros, scales):
    outputs, depth = len(codes), len(codes[0])
    flat_scales = [value for row in transposed(scales) for value in row]
    groups = depth // GROUP
    return {
        f"{module}.qweight": ("I32", [depth, outputs // 8], words(transposed(codes), AWQ_ORDER)),
        f"{module}.qzeros": ("I32", [groups, outputs // 8], words(transposed(zeros), AWQ_ORDER)),
        f"{module}.scales": ("F16", [groups, outputs], struct.pack(f"<{len(flat_scales)}e", *flat_scales)),
    }


def pack_quantized_tensors(module, codes, zeros, scales):
    """compressed-tensors' packed codes, with zeros."""
    outputs, depth = len(codes), len(codes[0])
    flat_scales = [value for row in scales for value in row]
    return {
        f"{module}.weight_packed": ("I32", [outputs, depth // 8], words(codes)),
        f"{module}.weight_shape": ("I64", [2], struct.pack("<2q", outputs, depth)),
        f"{module}.weight_scale": ("F16", [outputs, depth // GROUP],
                                   struct.pack(f"<{len(flat_scales)}e", *flat_scales)),
        # Zeros of neighbouring outputs share a word.
        f"{module}.weight_zero_point": (
            "I32", [outputs // 8, depth // GROUP],
            struct.pack(f"<{outputs // 8 * (depth // GROUP)}I",
                        *(sum(zeros[n + i][g] << (4 * i) for i in range(8))
                          for n in range(0, outputs, 8) for g in range(depth // GROUP)))),
    }


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def float8_numbers():
    """The numbers of E4M3 codes 0 to 126."""
    return [(code & 7) * 2.0**-9 if code < 8 else (1 + (code & 7) / 8) * 2.0 ** ((code >> 3) - 7)
            for code in range(127)]


def float8_tensors(module, rows, block):
    """Codes with a scale for each block of `block` x `block` elements, and the values that they stand for."""
    numbers = float8_numbers()
    middles = [(low + high) / 2 for low, high in zip(numbers, numbers[1:])]
    height, width = len(rows), len(rows[0])
    scales = []
    for n in range(0, height, block):
        scales.append([single(max(abs(v) for row in rows[n : n + block] for v in row[k : k + block]) / 448 or 1.0)
                       for k in range(0, width, block)])
    codes, values = bytearray(), []
    for n, row in enumerate(rows):
        values.append([])
        for k, value in enumerate(row):
            scale = scales[n // block][k // block]
            code = bisect.bisect(middles, abs(value) / scale)
            codes.append(code | (0x80 if value < 0 else 0))
            values[-1].append(single((-1 if value < 0 else 1) * numbers[code] * scale))
    shape = [len(scales), len(scales[0])]
    suffix = "weight_scale_inv" if len(scales) * len(scales[0]) > 1 else "weight_scale"
    return {f"{module}.weight": ("F8_E4M3", [height, width], bytes(codes)),
            f"{module}.{suffix}": ("F32", shape if suffix == "weight_scale_inv" else [1], floats(scales))}, values


def int8_tensors(module, rows):
    """compressed-tensors' int8 with a scale for each output."""
    scales = [single(max(map(abs, row)) / 127 or 1.0) for row in rows]
    codes = [[round(value / scale) for value in row] for row, scale in zip(rows, scales)]
    values = [[single(code * scale) for code in row] for row, scale in zip(codes, scales)]
    flat = [code for row in codes for code in row]
    return {f"{module}.weight": ("I8", [len(rows), len(rows[0])], struct.pack(f"<{len(flat)}b", *flat)),
            f"{module}.weight_scale": ("F32", [len(rows), 1], struct.pack(f"<{len(scales)}f", *scales))}, values


def nf4_tensors(module, rows):
    """bitsandbytes' nf4 in blocks of 64 elements."""
    table = [-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.091050036, 0.0, 0.0795803,
             0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0]
    table = [single(value) for value in table]
    middles = [(low + high) / 2 for low, high in zip(table, table[1:])]
    flat = [value for row in rows for value in row]
    largest, codes, values = [], [], []
    for begin in range(0, len(flat), 64):
        block = flat[begin : begin + 64]
        largest.append(single(max(map(abs, block)) or 1.0))
        for value in block:
            codes.append(bisect.bisect(middles, value / largest[-1]))
            values.append(single(table[codes[-1]] * largest[-1]))
    packed = bytes(codes[i] << 4 | codes[i + 1] for i in range(0, len(codes), 2))
    state = json.dumps({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16",
                        "shape": [len(rows), len(rows[0])]}).encode()
    width = len(rows[0])
    return {f"{module}.weight": ("U8", [len(packed), 1], packed),
            f"{module}.weight.absmax": ("F32", [len(largest)], struct.pack(f"<{len(largest)}f", *largest)),
            f"{module}.weight.quant_map": ("F32", [16], struct.pack("<16f", *table)),
            f"{module}.weight.quant_state.bitsandbytes__nf4": ("U8", [len(state)], state),
            }, [values[at : at + width] for at in range(0, len(values), width)]


def nvfp4_tensors(module, rows, form="compressed-tensors"):
    """NVFP4 with a float8 scale for 16 elements and a number for all, as compressed-tensors or ModelOpt stores it."""
    numbers = float8_numbers()
    middles = [(low + high) / 2 for low, high in zip(numbers, numbers[1:])]
    grid = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    between = [(low + high) / 2 for low, high in zip(grid, grid[1:])]
    shared = single(6 * 448 / max(abs(value) for row in rows for value in row))  # compressed-tensors divides by it
    factor = single(1 / shared)
    scales, packed, values = bytearray(), bytearray(), []
    for row in rows:
        values.append([])
        for begin in range(0, len(row), 16):
            group = row[begin : begin + 16]
            code = bisect.bisect(middles, max(map(abs, group)) / 6 * shared)
            scales.append(code)
            scale = single(numbers[code] * factor)
            codes = [bisect.bisect(between, abs(value) / scale) if scale else 0 for value in group]
            values[-1] += [single((-1 if value < 0 else 1) * grid[number] * scale) for number, value in zip(codes, group)]
            codes = [number | (8 if value < 0 else 0) for number, value in zip(codes, group)]
            packed += bytes(low | high << 4 for low, high in zip(codes[::2], codes[1::2]))
    height, width = len(rows), len(rows[0])
    weight = ("U8", [height, width // 2], bytes(packed))
    shared_scales = {f"{module}.weight_scale": ("F8_E4M3", [height, width // 16], bytes(scales))}
    if form == "modelopt":
        return shared_scales | {f"{module}.weight": weight, f"{module}.weight_scale_2": ("F32", [], struct.pack("<f", factor)),
                                f"{module}.input_scale": ("F32", [], struct.pack("<f", 0.01))}, values
    return shared_scales | {f"{module}.weight_packed": weight,
                            f"{module}.weight_global_scale": ("F32", [1], struct.pack("<f", shared)),
                            f"{module}.input_global_scale": ("F32", [1], struct.pack("<f", 100))}, values


class Quantization(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="reprise_quantization_"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        sys.path.insert(0, str(SOURCE / "tools"))
        import convert_to_gguf

        cls.tools = convert_to_gguf

    def run_cli(self, *arguments, binary=None):
        return subprocess.run(
            [binary or BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT, check=False
        )

    def tokens(self, model, *options):
        run = self.run_cli("generate", model, "--json", "--max-tokens", "24", *options)
        self.assertEqual(run.returncode, 0, run.stderr)
        return [output["token_ids"] for output in json.loads(run.stdout)["outputs"]]

    def write_folder(self, name, tensors, quantization=None):
        folder = self.folder / name
        shutil.copytree(MODEL, folder, ignore=shutil.ignore_patterns("eval", "*.safetensors"))
        if quantization:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            (folder / "config.json").write_text(json.dumps(config | {"quantization_config": quantization}))
        header, offset = {}, 0
        for tensor, (dtype, shape, raw) in tensors.items():
            header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(raw)]}
            offset += len(raw)
        text = json.dumps(header).encode()
        with (folder / "model.safetensors").open("wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for _, _, raw in tensors.values():
                file.write(raw)
        return folder

    def test_quantises_as_the_converter_does(self):
        gguf = self.tools.convert(Path(MODEL), self.folder / "q8_0.gguf", "q8_0")[0]
        expected = self.tokens(gguf, *OPTIONS)
        self.assertEqual(self.tokens(MODEL, *OPTIONS, "--quantization", "q8_0"), expected)

    def test_gives_the_same_tokens_eagerly_and_compiled(self):
        for method in ("int8", "int4", "fp8"):
            with self.subTest(method):
                expected = self.tokens(MODEL, *OPTIONS, "-q", method, "--enforce-eager")
                self.assertEqual(self.tokens(MODEL, *OPTIONS, "-q", method), expected)
                self.assertNotEqual(expected[0], [])

    def test_gives_the_tokens_of_the_weights_that_gptq_and_awq_stand_for(self):
        checkpoint = self.tools.Checkpoint(Path(MODEL))
        tensors = {"plain": {}, "gptq": {}, "awq": {}}
        for name, entry in checkpoint.tensors.items():
            values = list(checkpoint.floats(name))
            shape = entry["shape"]
            if ".layers." not in name or len(shape) != 2:
                for each in tensors.values():
                    each[name] = ("F32", shape, struct.pack(f"<{len(values)}f", *values))
                continue
            rows = [values[at : at + shape[1]] for at in range(0, len(values), shape[1])]
            codes, zeros, scales, numbers = four_bits(rows)
            module = name.removesuffix(".weight")
            tensors["plain"][name] = ("F32", shape, floats(numbers))
            tensors["gptq"] |= gptq_tensors(module, codes, zeros, scales)
            tensors["awq"] |= awq_tensors(module, codes, zeros, scales)
        common = {"bits": 4, "group_size": GROUP}
        plain = self.write_folder("plain", tensors["plain"])
        gptq = self.write_folder("gptq", tensors["gptq"], common | {"quant_method": "gptq", "desc_act": False})
        awq = self.write_folder("awq", tensors["awq"], common | {"quant_method": "awq", "version": "gemm"})
        expected = self.tokens(plain, *OPTIONS)
        self.assertEqual(self.tokens(gptq, *OPTIONS), expected)
        self.assertEqual(self.tokens(awq, *OPTIONS), expected)
        self.assertEqual(self.tokens(awq, *OPTIONS, "--quantization", "awq"), expected)
        for packing in ("gptq", "awq"):
            method = {"quant_method": "auto-round", "packing_format": "auto_round:auto_" + packing, "data_type": "int"}
            rounded = self.write_folder("rounded-" + packing, tensors[packing], common | method)
            self.assertEqual(self.tokens(rounded, *OPTIONS), expected)
        run = self.run_cli("generate", gptq, "--prompt", "x", "--quantization", "int8")
        self.assertEqual(run.returncode, 2)
        self.assertIn("quantised already (gptq)", run.stderr)

    def test_keeps_the_experts_of_checkpoints_packed(self):
        tensors = {"plain": {}, "gptq": {}, "awq": {}, "compressed": {}}
        for name, shape in gguf_test.mixture_shapes(gguf_test.MIXTURE).items():
            values = gguf_test.random_values(name, shape)
            if ".experts." not in name:
                for each in tensors.values():
                    each[name] = ("F32", shape, values.tobytes())
                continue
            codes, zeros, scales, numbers = four_bits([values[at : at + shape[1]] for at in range(0, len(values), shape[1])])
            module = name.removesuffix(".weight")
            tensors["plain"][name] = ("F32", shape, floats(numbers))
            tensors["gptq"] |= gptq_tensors(module, codes, zeros, scales)
            tensors["awq"] |= awq_tensors(module, codes, zeros, scales)
            tensors["compressed"] |= pack_quantized_tensors(module, codes, zeros, scales)
        common = {"bits": 4, "group_size": GROUP}
        methods = {"plain": None, "gptq": common | {"quant_method": "gptq", "desc_act": False},
                   "awq": common | {"quant_method": "awq", "version": "gemm"},
                   "compressed": {"quant_method": "compressed-tensors", "format": "pack-quantized"}}
        options = [word for i, first in enumerate("abcdefghijkl") for word in ("--prompt", f"{first}{i}The"[:4 + i % 2])]
        options += ["--ignore-eos", "--temperature", "0", "--dtype", "float32"]
        tokens = {}
        for name, method in methods.items():
            folder = self.write_folder(f"mixture-{name}", tensors[name], method)
            config = gguf_test.MIXTURE | ({"quantization_config": method} if method else {})
            (folder / "config.json").write_text(json.dumps(config))
            gguf_test.write_byte_tokenizer(folder)
            tokens[name] = self.tokens(folder, *options)
            run = self.run_cli("generate", folder, "--prompt", "x", "--max-tokens", "1")
            self.assertNotIn("dequantised", run.stderr)
        # The panels are the same, so the bits are the same.
        self.assertEqual(tokens["awq"], tokens["gptq"])
        self.assertEqual(tokens["compressed"], tokens["gptq"])
        # Weights are random, so some choices of tokens are close: of twelve first tokens, most must equal those of the
        # unquantised model.
        same = sum(got[0] == want[0] for got, want in zip(tokens["gptq"], tokens["plain"]))
        self.assertGreaterEqual(same, 10, tokens)

    def test_gives_the_tokens_of_the_weights_that_other_checkpoints_stand_for(self):
        formats = {
            "fp8": (lambda module, rows: float8_tensors(module, rows, 1 << 20), {"quant_method": "fp8"}),
            "fp8_block": (lambda module, rows: float8_tensors(module, rows, 64),
                          {"quant_method": "fp8", "weight_block_size": [64, 64]}),
            "fp8_block_128": (lambda module, rows: float8_tensors(module, rows, 128),
                              {"quant_method": "fp8", "weight_block_size": [128, 128]}),
            "int8": (int8_tensors, {"quant_method": "compressed-tensors", "format": "int-quantized"}),
            "int4": (lambda module, rows: (pack_quantized_tensors(module, *(four := four_bits(rows))[:3]), four[3]),
                     {"quant_method": "compressed-tensors", "format": "pack-quantized"}),
            "nf4": (nf4_tensors, {"quant_method": "bitsandbytes", "load_in_4bit": True}),
            "nvfp4": (nvfp4_tensors, {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}),
            "modelopt": (lambda module, rows: nvfp4_tensors(module, rows, "modelopt"),
                         {"quant_method": "modelopt", "quant_algo": "NVFP4"}),
        }
        checkpoint = self.tools.Checkpoint(Path(MODEL))
        for name, (quantised, config) in formats.items():
            with self.subTest(name):
                stored, plain = {}, {}
                for tensor, entry in checkpoint.tensors.items():
                    values, shape = list(checkpoint.floats(tensor)), entry["shape"]
                    if ".layers." not in tensor or len(shape) != 2:
                        stored[tensor] = plain[tensor] = ("F32", shape, struct.pack(f"<{len(values)}f", *values))
                        continue
                    rows = [values[at : at + shape[1]] for at in range(0, len(values), shape[1])]
                    tensors, numbers = quantised(tensor.removesuffix(".weight"), rows)
                    stored |= tensors
                    plain[tensor] = ("F32", shape, floats(numbers))
                expected = self.tokens(self.write_folder(f"{name}_plain", plain), *OPTIONS)
                folder = self.write_folder(name, stored, config)
                self.assertEqual(self.tokens(folder, *OPTIONS), expected)
                self.assertEqual(self.tokens(folder, *OPTIONS, "-q", config["quant_method"]), expected)
        # ModelOpt's older checkpoints say it in a file of their own.
        old = self.folder / "modelopt_old"
        shutil.copytree(self.folder / "modelopt", old)
        config = json.loads((old / "config.json").read_text(encoding="utf-8"))
        quantization = config.pop("quantization_config")
        del quantization["quant_method"]
        (old / "config.json").write_text(json.dumps(config), encoding="utf-8")
        (old / "hf_quant_config.json").write_text(json.dumps({"quantization": quantization}), encoding="utf-8")
        self.assertEqual(self.tokens(old, *OPTIONS, "-q", "modelopt_fp4"), self.tokens(self.folder / "modelopt", *OPTIONS))
        quantization["quant_algo"] = "W4A8_AWQ"
        (old / "hf_quant_config.json").write_text(json.dumps({"quantization": quantization}), encoding="utf-8")
        run = self.run_cli("generate", old, *OPTIONS)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("quant_algo: 'W4A8_AWQ' is not supported; supported: NVFP4, FP8", run.stderr)

    def test_quantises_activations_per_token_where_a_checkpoint_asks_for_it(self):
        checkpoint = self.tools.Checkpoint(Path(MODEL))
        stored = {}
        for tensor, entry in checkpoint.tensors.items():
            values, shape = list(checkpoint.floats(tensor)), entry["shape"]
            if ".layers." not in tensor or len(shape) != 2:
                stored[tensor] = ("F32", shape, struct.pack(f"<{len(values)}f", *values))
                continue
            rows = [values[at : at + shape[1]] for at in range(0, len(values), shape[1])]
            stored |= int8_tensors(tensor.removesuffix(".weight"), rows)[0]
        weights = {"num_bits": 8, "type": "int", "strategy": "channel"}
        inputs = {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True, "symmetric": True}
        config = {"quant_method": "compressed-tensors", "format": "int-quantized"}
        exact = self.write_folder("w8a16", stored, config | {"config_groups": {"group_0": {"weights": weights}}})
        coarse = self.write_folder(
            "w8a8", stored, config | {"config_groups": {"group_0": {"weights": weights, "input_activations": inputs}}})
        # The steps between the codes of a token's activations are coarser than those of blocks, so numbers and soon
        # also tokens differ.
        for expected, got in zip(self.tokens(exact, *OPTIONS), self.tokens(coarse, *OPTIONS)):
            self.assertEqual(got[:6], expected[:6])
        self.assertNotEqual(self.tokens(coarse, *OPTIONS), self.tokens(exact, *OPTIONS))

    def static_int8(self, name, inputs=None, change=None):
        """A copy of the golden model, with other members of input_activations or other tensors."""
        folder = self.folder / name
        shutil.copytree(SOURCE / "tests" / "goldens" / "quantized" / "static-int8", folder)
        gguf_test.write_byte_tokenizer(folder)
        config = json.loads((folder / "config.json").read_text())
        config["quantization_config"]["config_groups"]["group_0"]["input_activations"] |= inputs or {}
        (folder / "config.json").write_text(json.dumps(config))
        if change:
            raw = (folder / "model.safetensors").read_bytes()
            (folder / "model.safetensors").write_bytes(change(raw))
        return folder

    def logprobs_of_golden(self, folder, *options):
        request, result = self.folder / "golden_requests", self.folder / "golden_answers"
        cases = json.loads((folder / "logprobs.json").read_text())["cases"]
        request.write_text("\n".join(json.dumps({
            "custom_id": str(i), "method": "POST", "url": "/v1/completions",
            "body": {"prompt": case["prompt"] + case["continuation"], "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}})
            for i, case in enumerate(cases)))
        run = self.run_cli("run-batch", folder, "-i", request, "-o", result, "--dtype", "float32", "--device", "cpu", *options)
        self.assertEqual(run.returncode, 0, run.stderr)
        answers = [json.loads(line)["response"]["body"]["choices"][0] for line in result.read_text().splitlines()]
        return [next(iter(entry.values()))["logprob"] for answer in answers for entry in answer["prompt_logprobs"][1:]]

    def test_quantises_activations_by_the_scales_of_the_checkpoint(self):
        folder = self.static_int8("static")
        cases = json.loads((folder / "logprobs.json").read_text())["cases"]
        expected = [logprob for case in cases for logprob in case["logprobs"]]

        def distance(found):
            return max(abs(a - b) for a, b in zip(found, expected, strict=True))

        found = self.logprobs_of_golden(folder)
        self.assertLess(distance(found), STATIC_INT8_ERROR)
        # The scales of tokens must be replaced, because the golden ones are too small for the largest activations.
        tokens = self.static_int8("dynamic", {"strategy": "token", "dynamic": True})
        self.assertGreater(distance(self.logprobs_of_golden(tokens)), 10 * STATIC_INT8_ERROR)
        for options in (("--enforce-eager",), ("-cc.cudagraph_mode", "FULL"), ("-cc.mode", "0"), FUSED):
            with self.subTest(options):
                self.assertEqual(self.logprobs_of_golden(folder, *options), found)

    def test_attention_quantises_its_result_where_the_program_is_whole(self):
        folder = self.static_int8("whole")
        for options, count in (((), 0), (FUSED, 2)):
            pages = self.folder / f"dump{count}"
            run = self.run_cli("dump", folder, "--dtype", "float32", "--device", "cpu", "--output", pages, *options)
            self.assertEqual(run.returncode, 0, run.stderr)
            pieces = {stage.parent: stage for stage in sorted(pages.rglob("[0-9][0-9]_*.txt"))}  # after the last pass
            text = "".join(stage.read_text() for stage in pieces.values())
            self.assertEqual(len(re.findall(r"= attention_quant\(", text)), count)
            # The other projections of a layer are quantised by separate ops.
            self.assertIn("quantize_static(", text)

    def test_names_a_scale_that_is_no_positive_number(self):
        def without_scale(raw):
            (length,) = struct.unpack("<Q", raw[:8])
            header = json.loads(raw[8 : 8 + length])
            begin = header["model.layers.1.mlp.down_proj.input_scale"]["data_offsets"][0] + 8 + length
            return raw[:begin] + struct.pack("<f", 0) + raw[begin + 4 :]

        run = self.run_cli("generate", self.static_int8("broken", change=without_scale), "--prompt", "x", "--device", "cpu")
        self.assertEqual(run.returncode, 2)
        self.assertIn("model.layers.1.mlp.down_proj.input_scale", run.stderr)

    def test_takes_the_scales_of_a_float8_cache_from_the_checkpoint(self):
        checkpoint = self.tools.Checkpoint(Path(MODEL))
        plain = {}
        for name, entry in checkpoint.tensors.items():
            values = list(checkpoint.floats(name))
            plain[name] = ("F32", entry["shape"], struct.pack(f"<{len(values)}f", *values))
        layers = {name.split(".self_attn")[0] for name in plain if ".self_attn." in name}

        def with_scales(name, suffix, scale, quantization=None):
            scales = {f"{layer}.self_attn.{suffix}": ("F32", [1], struct.pack("<f", scale)) for layer in layers}
            return self.write_folder(name, plain | scales, quantization)

        float8 = ("--kv-cache-dtype", "fp8")
        expected = self.tokens(MODEL, *OPTIONS, *float8)
        # A power of two changes only the exponent; far too large a scale makes every key zero.
        self.assertEqual(self.tokens(with_scales("two", "k_scale", 2.0), *OPTIONS, *float8), expected)
        lost = with_scales("lost", "kv_scale", 1e6)
        self.assertNotEqual(self.tokens(lost, *OPTIONS, *float8), expected)
        self.assertEqual(self.tokens(lost, *OPTIONS), self.tokens(MODEL, *OPTIONS))
        run = self.run_cli("generate", with_scales("negative", "v_scale", -1.0), "--prompt", "x", *float8)
        self.assertEqual(run.returncode, 2)
        self.assertIn("a scale must be a positive number", run.stderr)
        scheme = {"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}
        calibrated = with_scales("calibrated", "v_scale", 1.0, scheme)
        self.assertEqual(self.tokens(calibrated, *OPTIONS), expected)

    def prompt_logprobs(self, prompt, *options, **environment):
        """The log probabilities of a prompt's tokens."""
        name = self.folder / "requests"
        body = {"prompt": prompt, "temperature": 0, "max_tokens": 1, "prompt_logprobs": 1}
        name.write_text(json.dumps({"custom_id": "0", "method": "POST", "url": "/v1/completions", "body": body}) + "\n")
        run = subprocess.run([WITH_AMX_SOFTWARE, "run-batch", MODEL, "-i", name, "-o", self.folder / "answers", "--device", "cpu",
                              "--enforce-eager", "--max-model-len", "256", "--max-num-batched-tokens", "256",
                              "-q", "q8_0", *options], capture_output=True, text=True, timeout=TIMEOUT, check=False,
                             env=os.environ | environment)
        self.assertEqual(run.returncode, 0, run.stderr)
        choice = json.loads((self.folder / "answers").read_text())["response"]["body"]["choices"][0]
        tokens = choice["prompt_logprobs"][1:]
        return [max(token.values(), key=lambda entry: entry["rank"])["logprob"] for token in tokens]

    def test_large_batches_change_without_batch_invariance_and_few_rows_do_not(self):
        software = ("--cpu-isa", "amx_software")
        long, short = "Once upon a time there was a little dog. " * 6, "Once upon"
        for prompt in (long, short):
            with self.subTest(prompt):
                expected = self.prompt_logprobs(prompt, *software, "--batch-invariant")
                found = self.prompt_logprobs(prompt, *software, "--no-batch-invariant")
                self.assertEqual(len(expected) >= 24, prompt == long)
                self.assertEqual(found != expected, prompt == long)
                self.assertEqual(self.prompt_logprobs(prompt, *software, VLLM_BATCH_INVARIANT="0"), found)
                self.assertEqual(self.prompt_logprobs(prompt, *software), found, "the default")
                differences = [abs(got - want) for got, want in zip(found, expected, strict=True)]
                self.assertLess(sum(differences) / len(differences), 0.1)

    def test_says_why_batch_invariance_stays(self):
        software = ("--cpu-isa", "amx_software", "--enforce-eager", "--max-model-len", "64", "--max-num-batched-tokens", "64",
                    "--max-num-seqs", "8")
        for options, why in ((("--cpu-isa", "scalar", "-q", "q8_0"), "the kernels of scalar have no faster products"),
                             (software, "this model has none"), ((*software, "-q", "q8_0"), None)):
            with self.subTest(why):
                run = self.run_cli("generate", MODEL, "--prompt", "Once", "--max-tokens", "1", "--device", "cpu", *options,
                                   "--no-batch-invariant", binary=WITH_AMX_SOFTWARE)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertEqual("--no-batch-invariant has no effect: " in run.stderr, why is not None, run.stderr)
                self.assertIn(why or "", run.stderr)

    def test_the_program_for_users_lacks_the_tiles_in_software(self):
        run = self.run_cli("generate", MODEL, "--prompt", "x", "--cpu-isa", "amx_software")
        self.assertEqual(run.returncode, 2)
        self.assertIn("'amx_software' cannot run here: this program has no such kernels", run.stderr)

    def test_names_a_method_that_it_does_not_have(self):
        run = self.run_cli("generate", MODEL, "--prompt", "x", "--quantization", "nf4")
        self.assertEqual(run.returncode, 2)
        self.assertIn("'nf4' is not one of none, int8, int4, q8_0, fp8, gptq, awq", run.stderr)
        run = self.run_cli("generate", MODEL, "--prompt", "x", "--quantization", "gptq")
        self.assertEqual(run.returncode, 2)
        self.assertIn("stored as none", run.stderr)


if __name__ == "__main__":
    BINARY, MODEL, SOURCE, WITH_AMX_SOFTWARE = map(Path, sys.argv[1:5])
    unittest.main(argv=sys.argv[:1] + sys.argv[5:], verbosity=2)
