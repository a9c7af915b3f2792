#!/usr/bin/env python3
"""Writes tests/goldens/quantized/nvfp4.safetensors: small matrices in NVFP4, as compressed-tensors and ModelOpt store them,
and their values.

    python3 -m venv VENV && VENV/bin/pip install torch compressed-tensors==0.17.0 safetensors
    VENV/bin/python tools/make_nvfp4_goldens.py

Each case C has the stored tensors C/m.* and the float32 tensor C/values. compressed-tensors packs and unpacks its cases. The cases
of ModelOpt hold the same codes and scales under ModelOpt's names, with the reciprocal of the global scale, as vLLM converts one
form into the other.
"""

from pathlib import Path

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import save_file

TARGET = Path(__file__).resolve().parent.parent / "tests" / "goldens" / "quantized" / "nvfp4.safetensors"
LARGEST_FP4, LARGEST_E4M3 = 6.0, 448.0


def case(name, outputs, depth):
    args = QuantizationArgs(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    weight = torch.randn(outputs, depth) * 0.02
    weight[0, 0], weight[-1, -1] = 0.3, -0.3
    weight[1, :16] = 0  # a group whose scale is the least one
    global_scale = (LARGEST_FP4 * LARGEST_E4M3 / weight.abs().max()).reshape(1)
    scale = (weight.reshape(outputs, -1, 16).abs().amax(2) / LARGEST_FP4 * global_scale)
    scale = scale.clamp(2**-9, LARGEST_E4M3).to(torch.float8_e4m3fn)
    compressor = BaseCompressor.get_value_from_registry("nvfp4-pack-quantized")
    plain = {"weight": weight.bfloat16(), "weight_scale": scale.float(), "weight_global_scale": global_scale}
    stored = compressor.compress(plain, scheme)
    stored["weight_scale"] = scale
    stored["weight_global_scale"] = global_scale
    numbers = dict(stored) | {"weight_scale": scale.float()}  # values get the type of the scales
    values = compressor.decompress(numbers, scheme)["weight"].float()
    lut = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    packed = stored["weight_packed"].long()
    codes = torch.stack([packed & 15, packed >> 4], 2).reshape(outputs, depth)
    exact = lut[codes] * (scale.float() / global_scale).repeat_interleave(16, 1)
    torch.testing.assert_close(values, exact, rtol=2**-7, atol=0)  # the library's values are bfloat16
    yield {f"{name}/m.{key}": tensor for key, tensor in stored.items()} | {
        f"{name}/m.input_global_scale": torch.tensor([100.0]), f"{name}/values": exact}
    inverse = (1 / global_scale).reshape(())
    exact = lut[codes] * (scale.float() * inverse).repeat_interleave(16, 1)
    yield {f"{name}_modelopt/m.weight": stored["weight_packed"], f"{name}_modelopt/m.weight_scale": scale,
           f"{name}_modelopt/m.weight_scale_2": inverse, f"{name}_modelopt/m.input_scale": torch.tensor(0.01),
           f"{name}_modelopt/values": exact}


def main():
    torch.manual_seed(16)
    tensors = {}
    for cases in (case("panels", 17, 256), case("rows", 17, 48)):  # rows of 48 are no whole panels
        for stored in cases:
            tensors |= {name: tensor.clone().contiguous() for name, tensor in stored.items()}
    save_file(tensors, TARGET)
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
