#!/usr/bin/env python3
"""--quantization, and GPTQ and AWQ checkpoints: the tokens of the same weights as numbers.

    quantization_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER

Uses only Python's standard library.
"""

import json
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY = MODEL = SOURCE = None
TIMEOUT = 300
GROUP = 32
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # of the outputs in a word
OPTIONS = ("--prompt", "Once upon a time", "--prompt", "The cat sat", "--ignore-eos", "--temperature", "0",
           "--dtype", "float32")


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


class Quantization(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="reprise_quantization_"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        sys.path.insert(0, str(SOURCE / "tools"))
        import convert_to_gguf

        cls.tools = convert_to_gguf

    def run_cli(self, *arguments):
        return subprocess.run(
            [BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT, check=False
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
        for method in ("int8", "int4"):
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
        run = self.run_cli("generate", gptq, "--prompt", "x", "--quantization", "int8")
        self.assertEqual(run.returncode, 2)
        self.assertIn("quantised already (gptq)", run.stderr)

    def test_names_a_method_that_it_does_not_have(self):
        run = self.run_cli("generate", MODEL, "--prompt", "x", "--quantization", "nf4")
        self.assertEqual(run.returncode, 2)
        self.assertIn("'nf4' is not one of none, int8, int4, q8_0, gptq, awq", run.stderr)
        run = self.run_cli("generate", MODEL, "--prompt", "x", "--quantization", "gptq")
        self.assertEqual(run.returncode, 2)
        self.assertIn("stored as none", run.stderr)


if __name__ == "__main__":
    BINARY, MODEL, SOURCE = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
