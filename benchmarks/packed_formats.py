"""The formats of packed_accuracy.py: float matrices as bytes of a quantised checkpoint, and the values of these bytes.

Each function takes the name of a module and its matrix [outputs, depth] in float32, and returns the stored tensors by name
(type, shape, bytes) with the float32 matrix that they stand for. All round to the nearest code; none searches for better
scales, as the published tools do, so the distance of a format from the float model is an upper bound.
"""

import json

import numpy as np

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # of the outputs in a word
NF4 = np.array([-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.091050036, 0.0, 0.0795803, 0.1609302,
                0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0], "<f4")
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], "<f4")
E4M3 = np.array([(code & 7) * 2.0**-9 if code < 8 else (1 + (code & 7) / 8) * 2.0 ** ((code >> 3) - 7) for code in range(127)],
                "<f4")


def nearest(values, numbers):
    """The indices of the nearest of ascending `numbers`."""
    return np.searchsorted((numbers[1:] + numbers[:-1]) / 2, values)


def words(codes, bits, order=None):
    """Codes of the last axis in words of 32 bits, the first code in the lowest bits."""
    codes = codes.reshape(*codes.shape[:-1], -1, 32 // bits).astype("<u4")
    codes = codes[..., list(order)] if order else codes
    return np.ascontiguousarray((codes << (np.arange(32 // bits, dtype="<u4") * bits)).sum(-1, dtype="<u4"))


def stored(kind, array):
    return kind, list(array.shape), np.ascontiguousarray(array).tobytes()


def integer_groups(weight, bits, group, has_zeros):
    """Codes [outputs, depth], zeros and float16 scales [outputs, groups], and the values."""
    outputs, depth = weight.shape
    groups = weight.reshape(outputs, -1, group)
    most_code = 2**bits - 1
    if has_zeros:
        low, high = np.minimum(groups.min(2), 0), np.maximum(groups.max(2), 0)
        scales = np.maximum((high - low) / most_code, 1e-6).astype("<f2").astype("<f4")
        zeros = np.clip(np.round(-low / scales), 1, most_code)
    else:
        scales = np.maximum(np.abs(groups).max(2) / (2 ** (bits - 1) - 0.5), 1e-6).astype("<f2").astype("<f4")
        zeros = np.full_like(scales, 2 ** (bits - 1))
    codes = np.clip(np.round(groups / scales[..., None]) + zeros[..., None], 0, most_code)
    values = (codes - zeros[..., None]) * scales[..., None]
    return codes.reshape(outputs, depth), zeros, scales, values.reshape(outputs, depth).astype("<f4")


def gptq(group, bits=4, by_activation=False):
    def quantise(module, weight):
        depth = weight.shape[1]
        # The real order is that of the activations' size, which is not known here. Any order has the same layout.
        order = np.argsort(-(weight**2).sum(0), kind="stable") if by_activation else np.arange(depth)
        codes, zeros, scales, values = integer_groups(weight[:, order], bits, group, has_zeros=bits == 4)
        places = np.argsort(order)
        return {f"{module}.qweight": stored("I32", words(codes[:, places], bits).T),
                f"{module}.qzeros": stored("I32", words(zeros.T - 1, bits)),
                f"{module}.scales": stored("F16", scales.T.astype("<f2")),
                f"{module}.g_idx": stored("I32", (places // group).astype("<i4"))}, values[:, places]

    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": by_activation, "sym": bits == 8}
    return quantise, config, bits + (16 + bits) / group


def awq(group):
    def quantise(module, weight):
        codes, zeros, scales, values = integer_groups(weight, 4, group, has_zeros=True)
        return {f"{module}.qweight": stored("I32", words(codes.T, 4, AWQ_ORDER)),
                f"{module}.qzeros": stored("I32", words(zeros.T, 4, AWQ_ORDER)),
                f"{module}.scales": stored("F16", scales.T.astype("<f2"))}, values

    config = {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm", "zero_point": True}
    return quantise, config, 4 + 20 / group


def compressed(form, weights, inputs=None):
    group = {"targets": ["Linear"], "weights": weights} | ({"input_activations": inputs} if inputs else {})
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": group}}


def w4a16(group):
    def quantise(module, weight):
        codes, _, scales, values = integer_groups(weight, 4, group, has_zeros=False)
        return {f"{module}.weight_packed": stored("I32", words(codes, 4)),
                f"{module}.weight_shape": stored("I64", np.array(weight.shape, "<i8")),
                f"{module}.weight_scale": stored("F16", scales.astype("<f2"))}, values

    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": group, "symmetric": True}
    return quantise, compressed("pack-quantized", weights), 4 + 16 / group


def int8_outputs(weight):
    scales = np.maximum(np.abs(weight).max(1, keepdims=True) / np.float32(127), np.float32(1e-9))
    codes = np.round(weight / scales).astype("i1")
    return codes, scales, codes * scales


def w8(inputs):
    def quantise(module, weight):
        codes, scales, values = int8_outputs(weight)
        return {f"{module}.weight": stored("I8", codes), f"{module}.weight_scale": stored("F32", scales)}, values

    weights = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}
    per_token = {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True, "symmetric": True}
    return quantise, compressed("int-quantized", weights, per_token if inputs else None), 8


def bitsandbytes_int8():
    def quantise(module, weight):
        codes, scales, values = int8_outputs(weight)
        return {f"{module}.weight": stored("I8", codes), f"{module}.SCB": stored("F32", scales[:, 0] * np.float32(127))}, values

    return quantise, {"quant_method": "bitsandbytes", "load_in_8bit": True}, 8


def nf4():
    def quantise(module, weight):
        blocks = weight.reshape(-1, 64)
        largest = np.maximum(np.abs(blocks).max(1, keepdims=True), np.float32(1e-9))
        codes = nearest(blocks / largest, NF4)
        pairs = codes.reshape(-1, 2).astype("u1")
        state = json.dumps({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": list(weight.shape)}).encode()
        return {f"{module}.weight": stored("U8", pairs[:, :1] << 4 | pairs[:, 1:]),
                f"{module}.weight.absmax": stored("F32", largest[:, 0]), f"{module}.weight.quant_map": stored("F32", NF4),
                f"{module}.weight.quant_state.bitsandbytes__nf4": ("U8", [len(state)], state),
                }, (NF4[codes] * largest).reshape(weight.shape)

    return quantise, {"quant_method": "bitsandbytes", "load_in_4bit": True}, 4 + 32 / 64


def float8(height, width):
    """Float8 with one scale for `height` x `width` elements; None: for all."""

    def quantise(module, weight):
        outputs, depth = weight.shape
        rows, columns = height or outputs, width or depth
        padded = np.pad(weight, ((0, -outputs % rows), (0, -depth % columns)))
        blocks = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)
        scales = (np.abs(blocks).max((1, 3), keepdims=True) / np.float32(448)).astype("<f4")
        codes = nearest(np.abs(blocks) / scales, E4M3)
        values = np.sign(blocks) * E4M3[codes] * scales
        codes = (codes | np.where(blocks < 0, 128, 0)).astype("u1").reshape(padded.shape)[:outputs, :depth]
        flat = scales[:, 0, :, 0]
        name = "weight_scale_inv" if width else "weight_scale"
        flat = flat.reshape(1) if not height and not width else flat
        values = values.reshape(padded.shape)[:outputs, :depth]
        return {f"{module}.weight": stored("F8_E4M3", codes), f"{module}.{name}": stored("F32", flat)}, values

    config = {"quant_method": "fp8"} | ({"weight_block_size": [height, width]} if width else {})
    if height == 1:
        config = compressed("float-quantized", {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True})
    return quantise, config, 8 + (32 / (height * width) if width else 0)


def nvfp4():
    def quantise(module, weight):
        outputs, depth = weight.shape
        shared = np.float32(6 * 448) / np.abs(weight).max()  # compressed-tensors divides by it
        groups = weight.reshape(outputs, -1, 16)
        scale_codes = nearest(np.abs(groups).max(2) / 6 * shared, E4M3)
        scales = np.maximum(E4M3[scale_codes] / shared, np.float32(1e-12))[..., None]
        codes = nearest(np.abs(groups) / scales, FP4)
        values = (np.sign(groups) * FP4[codes] * scales).reshape(weight.shape).astype("<f4")
        codes = (codes | np.where(groups < 0, 8, 0)).astype("u1").reshape(outputs, -1, 2)
        return {f"{module}.weight_packed": stored("U8", codes[..., 0] | codes[..., 1] << 4),
                f"{module}.weight_scale": stored("F8_E4M3", scale_codes.astype("u1")),
                f"{module}.weight_global_scale": stored("F32", shared.reshape(1)),
                f"{module}.input_global_scale": stored("F32", np.array([100], "<f4"))}, values

    return quantise, {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}, 4.5


CHECKPOINTS = {
    "GPTQ 4 bits, groups of 32": gptq(32), "GPTQ 4 bits, groups of 64": gptq(64), "GPTQ 4 bits, groups of 128": gptq(128),
    "GPTQ 4 bits, groups of 128, desc_act": gptq(128, by_activation=True), "GPTQ 8 bits, groups of 128": gptq(128, bits=8),
    "AWQ, groups of 64": awq(64), "AWQ, groups of 128": awq(128),
    "W4A16, groups of 32": w4a16(32), "W4A16, groups of 128": w4a16(128), "W8A16": w8(inputs=False), "W8A8": w8(inputs=True),
    "FP8, one scale": float8(None, None), "FP8, scales of outputs": float8(1, None), "FP8, blocks of 128": float8(128, 128),
    "bitsandbytes NF4": nf4(), "bitsandbytes INT8": bitsandbytes_int8(), "NVFP4": nvfp4(),
}
# ggml's number of the type, the elements of a block, and its bytes.
GGUF = {
    "Q8_0": (8, 32, 34), "Q6_K": (14, 256, 210), "Q5_K": (13, 256, 176), "Q5_1": (7, 32, 24), "Q5_0": (6, 32, 22),
    "Q4_K": (12, 256, 144), "Q4_1": (3, 32, 20), "Q4_0": (2, 32, 18), "IQ4_NL": (20, 32, 18), "IQ4_XS": (23, 256, 136),
    "MXFP4": (39, 32, 17), "Q3_K": (11, 256, 110), "Q2_K": (10, 256, 84),
}
# Bits of a weight in a layer when the program packs it while loading.
WHILE_LOADING = {"int8": 8, "q8_0": 8.5, "int4": 4.5, "fp8": 8}
