#!/usr/bin/env python3
"""Writes tests/goldens/gguf/blocks.safetensors: random blocks of every GGUF format, and their values.

    python3 -m venv VENV && VENV/bin/pip install gguf==0.19.0
    VENV/bin/python tools/make_gguf_goldens.py

The values are those of gguf.quants.dequantize, which the authors of the format publish. Each format F has the
tensors F.blocks (bytes, one row per block) and F.values (float32).
"""

import json
import struct
from pathlib import Path

import gguf
import numpy as np

TARGET = Path(__file__).resolve().parent.parent / "tests" / "goldens" / "gguf" / "blocks.safetensors"
# The offsets at which a block has float16 scales; all other bytes may have any value.
HALVES = {
    "F32": [], "F16": [0], "BF16": [], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0],
    "MXFP4": [],
}


def random_blocks(name: str, random: np.random.Generator) -> np.ndarray:
    num_elements, num_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    count = 64 if num_elements == 1 else 5 if num_elements == 32 else 2
    blocks = random.integers(0, 256, (count, num_bytes), dtype=np.uint8)
    if name in ("F32", "BF16"):  # any byte is valid, but a NaN has no value to compare with
        values = random.standard_normal(count).astype(np.float32).view(np.uint8).reshape(count, 4)
        return values if name == "F32" else np.ascontiguousarray(values[:, 2:])
    for at in HALVES[name]:
        scales = random.standard_normal(count).astype(np.float16)
        scales[0] = np.float16(6e-6)  # subnormal
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(count, 2)
    if name == "MXFP4":  # exponents below 2 are subnormal scales; 255 would be NaN
        blocks[:, 0] = [0, 1, 2, 127, 200]
    return blocks


def main() -> None:
    random = np.random.default_rng(15)
    header: dict[str, dict] = {}
    data = b""
    for name in HALVES:
        blocks = random_blocks(name, random)
        values = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name]).astype("<f4")
        for part, array, dtype in (("values", values, "F32"), ("blocks", blocks, "U8")):
            raw = array.tobytes()
            header[f"{name}.{part}"] = {
                "dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]
            }
            data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_bytes(struct.pack("<Q", len(text)) + text + data)
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
