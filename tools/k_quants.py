"""Writes the K-quants of GGUF: Q4_K and Q6_K, super-blocks of 256 elements.

The functions compute with numbers: floats of one super-block, or numpy arrays with one entry for each of many
super-blocks. So tests without numpy and large models with it get the same bytes. The scales are those of the largest
and the least element; llama.cpp also searches for better ones, which costs more time and changes no format.
Source of the layouts: ggml's ggml-common.h and the PyPI package gguf 0.19, quants.py.
"""

import math
import struct

try:
    import numpy
except ImportError:
    numpy = None

SUPER_BLOCK = 256
BYTES = {"q4_k": 144, "q6_k": 210}


def is_array(value) -> bool:
    return hasattr(value, "astype")


def least(values):
    return numpy.minimum.reduce(values) if is_array(values[0]) else min(values)


def largest(values):
    return numpy.maximum.reduce(values) if is_array(values[0]) else max(values)


def half(value):
    """The nearest float16, as a number."""
    if is_array(value):
        return value.astype("<f2").astype("<f8")
    return struct.unpack("<e", struct.pack("<e", value))[0]


def half_bytes(value) -> list:
    """The two bytes of a float16."""
    if is_array(value):
        words = value.astype("<f2").view("<u2")
        return [words & 255, words >> 8]
    return list(struct.pack("<e", value))


def code(value, step, low: int, high: int):
    """value / step as a whole number from low to high; 0 if step is 0."""
    if is_array(value):
        quotient = numpy.divide(value, step, out=numpy.zeros_like(value), where=step != 0)
        return numpy.clip(numpy.floor(quotient + 0.5), low, high).astype("<i8")
    return min(high, max(low, math.floor(value / step + 0.5))) if step else min(high, max(low, 0))


def q4_k(values: list) -> list:
    """256 numbers to 144 bytes: x = scale * code - least, with eight scales and leasts of six bits."""
    parts = [values[at : at + 32] for at in range(0, SUPER_BLOCK, 32)]
    lows = [least([part_low, part_low * 0]) for part_low in (least(part) for part in parts)]
    scales = [(largest(part + [low]) - low) / 15 for part, low in zip(parts, lows)]
    scale_step, least_step = half(largest(scales) / 63), half(largest([-low for low in lows]) / 63)
    scale_codes = [code(scale, scale_step, 0, 63) for scale in scales]
    least_codes = [code(-low, least_step, 0, 63) for low in lows]
    codes = []
    for part, scale, low in zip(parts, scale_codes, least_codes):
        codes.append([code(x + least_step * low, scale_step * scale, 0, 15) for x in part])
    packed = [scale_codes[j] | scale_codes[j + 4] >> 4 << 6 for j in range(4)]
    packed += [least_codes[j] | least_codes[j + 4] >> 4 << 6 for j in range(4)]
    packed += [scale_codes[j + 4] & 15 | (least_codes[j + 4] & 15) << 4 for j in range(4)]
    pairs = [codes[part][i] | codes[part + 1][i] << 4 for part in range(0, 8, 2) for i in range(32)]
    return half_bytes(scale_step) + half_bytes(least_step) + packed + pairs


def q6_k(values: list) -> list:
    """256 numbers to 210 bytes: x = scale * (code - 32), with sixteen scales of eight bits."""
    parts = [values[at : at + 16] for at in range(0, SUPER_BLOCK, 16)]
    scales = [largest([abs(x) for x in part]) / 31 for part in parts]
    step = half(largest(scales) / 127)
    scale_codes = [code(scale, step, 0, 127) for scale in scales]
    codes = [code(x, step * scale, -32, 31) + 32 for part, scale in zip(parts, scale_codes) for x in part]
    low_bits, high_bits = [], []
    for begin in (0, 128):
        quarters = [codes[begin + at : begin + at + 32] for at in range(0, 128, 32)]
        low_bits += [quarters[0][i] & 15 | (quarters[2][i] & 15) << 4 for i in range(32)]
        low_bits += [quarters[1][i] & 15 | (quarters[3][i] & 15) << 4 for i in range(32)]
        high_bits += [quarters[0][i] >> 4 | quarters[1][i] >> 4 << 2 | quarters[2][i] >> 4 << 4 | quarters[3][i] >> 4 << 6
                      for i in range(32)]
    return low_bits + high_bits + scale_codes + half_bytes(step)


def encoded(values, kind: str) -> bytes:
    """All elements of a matrix whose rows are whole super-blocks."""
    quantise = {"q4_k": q4_k, "q6_k": q6_k}[kind]
    if numpy is None:
        return b"".join(bytes(quantise(list(values[at : at + SUPER_BLOCK]))) for at in range(0, len(values), SUPER_BLOCK))
    blocks = numpy.asarray(values, "<f4").reshape(-1, SUPER_BLOCK)
    at_once = 1 << 14  # 32 MB of float64
    return b"".join(
        numpy.stack(quantise(list(blocks[at : at + at_once].T.astype("<f8"))), axis=1).astype("u1").tobytes()
        for at in range(0, len(blocks), at_once))
