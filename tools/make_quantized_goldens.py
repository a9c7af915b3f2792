#!/usr/bin/env python3
"""Writes tests/goldens/quantized/matrices.safetensors: small matrices in the formats of quantised checkpoints,
and their values.

    python3 -m venv VENV && VENV/bin/pip install torch compressed-tensors==0.17.0 bitsandbytes==0.50.2 safetensors
    VENV/bin/python tools/make_quantized_goldens.py

Each case C has the stored tensors C/m.* and the float32 tensor C/values. compressed-tensors and bitsandbytes, which
define their formats, quantise and dequantise their cases; the float8 cases are PyTorch's float8 times the scale.
"""

import copy
from pathlib import Path

import bitsandbytes.functional as bnb
import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import save_file

TARGET = Path(__file__).resolve().parent.parent / "tests" / "goldens" / "quantized" / "matrices.safetensors"
OUTPUTS, DEPTH = 17, 256  # the last panel of 16 outputs is not full


def weight(outputs=OUTPUTS, depth=DEPTH):
    values = torch.randn(outputs, depth) * 0.02
    values[0, 0], values[outputs - 1, depth - 1] = 0.3, -0.3
    return values


def compressed(name, form, scales, **options):
    """A case that compressed-tensors packs and unpacks. `scales`: the type of the scales."""
    args = QuantizationArgs(**options)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    values = weight()
    groups = values.reshape(OUTPUTS, -1, args.group_size or DEPTH)
    order = None
    if args.actorder:
        order = torch.randperm(DEPTH).argsort() // args.group_size
        groups = torch.stack([values[:, order == g] for g in range(DEPTH // args.group_size)], 1)
    least, most = groups.amin(2), groups.amax(2)
    steps = 2**args.num_bits - 1
    if args.symmetric:
        scale = groups.abs().amax(2) / (steps / 2) if args.type == "int" else groups.abs().amax(2) / 448
    else:
        scale = (most.clamp(min=0) - least.clamp(max=0)) / steps
    scale = scale.to(scales)
    stored = {"weight": values.to(scales), "weight_scale": scale}
    if not args.symmetric:
        zero = (-(2 ** (args.num_bits - 1)) - least.clamp(max=0) / scale.float()).round().clamp(-128, 127)
        stored["weight_zero_point"] = zero.to(torch.int8)
    if order is not None:
        stored["weight_g_idx"] = order.to(torch.int32)
    compressor = BaseCompressor.get_value_from_registry(form)
    stored = compressor.compress(stored, scheme)
    numbers = copy.copy(stored)
    numbers["weight_scale"] = scale.float()
    result = compressor.decompress(numbers, scheme)["weight"].float()
    return {f"{name}/m.{key}": tensor for key, tensor in stored.items()} | {f"{name}/values": result}


def float8(name, dtype, grid, suffix="weight_scale", shape=None):
    """Float8 with one scale for each block of grid[0] x grid[1] elements."""
    values = weight(24, 200)
    rows, columns = -(-24 // grid[0]), -(-200 // grid[1])
    scale = torch.rand(rows, columns) * 1e-3 + 1e-4
    spread = scale.repeat_interleave(grid[0], 0)[:24].repeat_interleave(grid[1], 1)[:, :200]
    codes = (values / spread).clamp(-448, 448).to(dtype)
    result = codes.float() * spread
    return {f"{name}/m.weight": codes, f"{name}/m.{suffix}": scale if shape is None else scale.reshape(shape),
            f"{name}/values": result}


def four_bits(name, kind, nested):
    """bitsandbytes' four bits, with the names that Transformers saves."""
    values = weight(17, 100)
    codes, state = bnb.quantize_4bit(values, blocksize=64, quant_type=kind, compress_statistics=nested)
    result = bnb.dequantize_4bit(codes, state).float()
    stored = {f"{name}/m.weight": codes}
    for key, tensor in state.as_dict(packed=True).items():
        stored[f"{name}/m.weight.{key}"] = tensor
    return stored | {f"{name}/values": result}


def eight_bits(name):
    values = weight()
    codes, scales, _ = bnb.int8_vectorwise_quant(values.to(torch.float16))
    return {f"{name}/m.weight": codes, f"{name}/m.SCB": scales.float(),
            f"{name}/values": codes.float() * (scales.float() / 127)[:, None]}


def main():
    torch.manual_seed(15)
    e4m3, e5m2, half, bfloat = torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16
    four = {"num_bits": 4, "type": "int", "strategy": "group"}
    cases = (
        float8("fp8_tensor", e4m3, (24, 200), shape=[]),
        float8("fp8_channel", e4m3, (1, 200)),
        float8("fp8_block", e4m3, (16, 128), "weight_scale_inv"),
        float8("fp8_e5m2", e5m2, (1, 200), shape=[24]),
        compressed("float_quantized", "float-quantized", bfloat, num_bits=8, type="float", strategy="channel"),
        compressed("int8", "int-quantized", bfloat, num_bits=8, type="int", strategy="channel"),
        compressed("int8_zeros", "int-quantized", half, num_bits=8, type="int", strategy="channel", symmetric=False),
        compressed("int4_g32", "pack-quantized", half, **four, group_size=32),
        compressed("int4_g128", "pack-quantized", bfloat, **four, group_size=128),
        compressed("int4_zeros", "pack-quantized", half, **four, group_size=128, symmetric=False),
        compressed("int4_order", "pack-quantized", half, **four, group_size=32, actorder="group"),
        compressed("int4_channel", "pack-quantized", half, num_bits=4, type="int", strategy="channel"),
        compressed("int8_packed", "pack-quantized", half, num_bits=8, type="int", strategy="channel"),
        four_bits("nf4", "nf4", False),
        four_bits("nf4_nested", "nf4", True),
        four_bits("fp4", "fp4", False),
        eight_bits("bnb_int8"),
    )
    tensors = {}
    for case in cases:
        tensors |= {name: tensor.contiguous() for name, tensor in case.items()}
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, TARGET)
    print(f"{TARGET}: {TARGET.stat().st_size} bytes, {len(cases)} cases")


if __name__ == "__main__":
    main()
