#!/usr/bin/env python3
"""Writes the model of a Hugging Face folder as a GGUF file, with nothing but the standard library.

    tools/convert_to_gguf.py models/reprise-tiny /tmp/tiny.gguf --outtype q8_0
    tools/convert_to_gguf.py models/reprise-tiny /tmp/tiny.gguf --outtype f32 --parts 3

For tests and measurements: the classes of gguf_kinds.py, with one safetensors file, float weights, and the tokenizers of
tests. Names, metadata and row order are those of llama.cpp's convert_hf_to_gguf.py; embeddings and matrices get the type,
vectors stay F32, and a matrix whose rows are not a multiple of 32 is F16 in the quantised
types. Large models are converted faster where numpy is installed, with the same result.
"""

import argparse
import array
import json
import math
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import gguf_kinds
import k_quants
from gguf_kinds import joined
from gguf_vocabulary import tokenizer_keys

try:
    import numpy
except ImportError:
    numpy = None

F32, F16, Q4_0, Q5_0, Q8_0, Q4_K, Q6_K, BF16 = 0, 1, 2, 6, 8, 12, 14, 30
# llama.cpp's number of the type of most tensors; some readers refuse a file without this number.
FILE_TYPES = {F32: 0, F16: 1, Q4_0: 2, Q8_0: 7, Q5_0: 8, Q4_K: 15, Q6_K: 18, BF16: 32}
# q4_k_m: the formats of files that are called Q4_K_M, whose embedding and half of whose v and down projections have
# more bits than the other matrices. q5_mixed: the same idea in blocks of 32.
OUTTYPES = {"f32": F32, "f16": F16, "bf16": BF16, "q8_0": Q8_0, "q5_0": Q5_0, "q4_0": Q4_0, "q5_mixed": Q5_0, "q4_k": Q4_K,
            "q6_k": Q6_K, "q4_k_m": Q4_K}
K_QUANTS = {Q4_K: "q4_k", Q6_K: "q6_k"}
# K-quants have blocks of 256 elements. Matrices with rows that are no multiple of 256 get these formats, as in
# llama.cpp.
WITHOUT_SUPER_BLOCKS = {Q4_K: Q5_0, Q6_K: Q8_0}
MORE_BITS = ("self_attn.v_proj", "mlp.down_proj", "embed_tokens", "lm_head", "ffn_down_exps")
U32, I32, FLOAT, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
# The matrices of experts. A checkpoint has either a tensor for each expert or one for all experts of a layer.
EXPERT_NAMES = {"gate_proj": "ffn_gate_exps", "up_proj": "ffn_up_exps", "down_proj": "ffn_down_exps",
                "w1": "ffn_gate_exps", "w3": "ffn_up_exps", "w2": "ffn_down_exps"}
GATE_UP_NAMES = ("mlp.experts.gate_up_proj", "block_sparse_moe.experts.gate_up_proj", "block_sparse_moe.input_linear.weight")
DOWN_NAMES = ("mlp.experts.down_proj", "block_sparse_moe.experts.down_proj", "block_sparse_moe.output_linear.weight")
# Small tables and recurrences, which llama.cpp does not quantise.
ALWAYS_F32 = ("ssm_a", "ssm_d", "ssm_conv1d.weight", "ssm_conv1d_q.weight", "ssm_conv1d_k.weight",
              "ssm_conv1d_v.weight", "ssm_norm.weight", "indexer.proj.weight", "shortconv.conv.weight", "position_embd.weight",
              "token_types.weight",
              ".bias", "ffn_norm")
ROUTERS = (".mlp.gate.weight", ".mlp.gate.wg.weight", "feed_forward.gate.weight", "block_sparse_moe.gate.weight",
           ".router.layer.weight", ".router.weight", ".moe.gate.weight")
ALIGNMENT = 32


# ---------------------------------------------------------------------------------------------- tensors


class Checkpoint:
    def __init__(self, folder: Path):
        self.path = folder / "model.safetensors"
        with self.path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            self.tensors = json.loads(file.read(length))
        self.tensors.pop("__metadata__", None)
        self.data_begin = 8 + length

    def floats(self, name: str):
        """The elements as an array of float32."""
        entry = self.tensors[name]
        begin, end = entry["data_offsets"]
        with self.path.open("rb") as file:
            file.seek(self.data_begin + begin)
            raw = file.read(end - begin)
        if entry["dtype"] == "F32":
            return numpy.frombuffer(raw, "<f4") if numpy else array.array("f", raw)
        if entry["dtype"] == "BF16":
            if numpy:
                return (numpy.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
            return array.array("f", array.array("I", (bits << 16 for bits in array.array("H", raw))).tobytes())
        if entry["dtype"] == "F16":
            return array.array("f", struct.unpack(f"<{len(raw) // 2}e", raw))
        raise SystemExit(f"{name}: {entry['dtype']} cannot be converted")


def permuted(values, num_rows: int, num_heads: int):
    """Interleaves the two halves of each head's rows: what llama.cpp's rotary embedding expects."""
    row = len(values) // num_rows
    head_rows = num_rows // num_heads
    if numpy:
        values = numpy.asarray(values).reshape(num_heads, 2, head_rows // 2, row)
        return numpy.ascontiguousarray(values.swapaxes(1, 2)).reshape(-1)
    result = array.array("f")
    for head in range(num_heads):
        for pair in range(head_rows // 2):
            for half in range(2):
                at = (head * head_rows + half * (head_rows // 2) + pair) * row
                result.extend(values[at : at + row])
    return result


def float32(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


def rounded_half_away(value: float) -> int:
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def block_q8_0(block) -> bytes:
    scale = float32(max(map(abs, block)) / 127)
    inverse = float32(1 / scale) if scale else 0.0
    codes = [rounded_half_away(float32(value * inverse)) for value in block]
    return struct.pack("<e32b", scale, *codes)


def block_q4_0(block) -> bytes:
    largest = max(block, key=abs)
    scale = float32(largest / -8)
    inverse = float32(1 / scale) if scale else 0.0
    codes = [min(15, int(float32(float32(value * inverse) + 8.5))) for value in block]
    return struct.pack("<e", scale) + bytes(codes[j] | codes[j + 16] << 4 for j in range(16))


def block_q5_0(block) -> bytes:
    largest = max(block, key=abs)
    scale = float32(largest / -16)
    inverse = float32(1 / scale) if scale else 0.0
    codes = [min(31, int(float32(float32(value * inverse) + 16.5))) for value in block]
    fifth_bits = sum((code >> 4) << i for i, code in enumerate(codes))
    return struct.pack("<eI", scale, fifth_bits) + bytes(codes[j] & 15 | (codes[j + 16] & 15) << 4 for j in range(16))


def blocks_numpy(values, kind: int) -> bytes:
    blocks = numpy.asarray(values, "<f4").reshape(-1, 32)
    if kind == Q8_0:
        scale = numpy.abs(blocks).max(axis=1, keepdims=True) / numpy.float32(127)
    else:
        at = numpy.abs(blocks).argmax(axis=1)[:, None]
        scale = numpy.take_along_axis(blocks, at, 1) / numpy.float32(-8 if kind == Q4_0 else -16)
    with numpy.errstate(divide="ignore"):
        inverse = numpy.where(scale == 0, 0, numpy.float32(1) / scale).astype("<f4")
    scaled = blocks * inverse
    if kind == Q8_0:
        codes = (numpy.sign(scaled) * numpy.floor(numpy.abs(scaled) + 0.5)).astype("i1").view("u1")
    elif kind == Q4_0:
        codes = (scaled + numpy.float32(8.5)).astype("u1").clip(0, 15)
        codes = codes[:, :16] | codes[:, 16:] << 4
    else:
        codes = (scaled + numpy.float32(16.5)).astype("u1").clip(0, 31)
        fifth_bits = numpy.packbits(codes >> 4, axis=1, bitorder="little")
        codes = numpy.concatenate([fifth_bits, codes[:, :16] & 15 | (codes[:, 16:] & 15) << 4], axis=1)
    return numpy.concatenate([scale.astype("<f2").view("u1"), codes], axis=1).tobytes()


def encoded(values, kind: int) -> bytes:
    if kind == F32:
        return values.tobytes()
    if kind == F16:
        return values.astype("<f2").tobytes() if hasattr(values, "astype") else struct.pack(f"<{len(values)}e", *values)
    if kind == BF16:  # used only for weights that are already bf16
        return numpy.asarray(values, "<f4").view("<u2")[1::2].tobytes() if numpy else b"".join(
            raw[2:4] for raw in struct.iter_unpack("4s", values.tobytes()) for raw in raw)
    if kind in K_QUANTS:
        return k_quants.encoded(values, K_QUANTS[kind])
    if numpy:
        return blocks_numpy(values, kind)
    quantise = {Q8_0: block_q8_0, Q5_0: block_q5_0, Q4_0: block_q4_0}[kind]
    return b"".join(quantise(values[at : at + 32]) for at in range(0, len(values), 32))


def llama3_factors(config: dict) -> list[float] | None:
    """What convert_hf_to_gguf.py stores as rope_freqs.weight."""
    rope = gguf_kinds.rope_of(config)
    if rope.get("rope_type") != "llama3":
        return None
    head_dim = gguf_kinds.head_dim(config)  # the whole head, also where only a part of it is rotated
    low, high, old = rope["low_freq_factor"], rope["high_freq_factor"], rope["original_max_position_embeddings"]
    factors = []
    for i in range(0, head_dim, 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (i / head_dim)
        if wavelength < old / high:
            factors.append(1.0)
        elif wavelength > old / low:
            factors.append(rope["factor"])
        else:
            smooth = (old / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return factors


def expert_tensors(checkpoint: Checkpoint) -> Iterator[tuple[str, list[int], object]]:
    """Name in the file, shape and values of the matrices of experts, all of one kind and layer in one tensor."""
    apart: dict[tuple[int, str], dict[int, str]] = {}
    for name in checkpoint.tensors:
        one = re.fullmatch(r"model\.layers\.(\d+)\.\w+\.experts\.(\d+)\.(\w+)\.weight", name)
        if one:
            apart.setdefault((int(one[1]), EXPERT_NAMES[one[3]]), {})[int(one[2])] = name
            continue
        layer = re.match(r"model\.layers\.(\d+)\.(.+)", name)
        if not layer or layer[2] not in GATE_UP_NAMES + DOWN_NAMES:
            continue
        shape, values = checkpoint.tensors[name]["shape"], checkpoint.floats(name)
        if layer[2] in DOWN_NAMES:
            yield f"blk.{layer[1]}.ffn_down_exps.weight", shape, values
            continue
        half = shape[1] // 2 * shape[2]
        for place, part in enumerate(("ffn_gate_exps", "ffn_up_exps")):
            parts = [values[(2 * i + place) * half : (2 * i + place + 1) * half] for i in range(shape[0])]
            yield f"blk.{layer[1]}.{part}.weight", [shape[0], shape[1] // 2, shape[2]], joined(parts)
    for (layer, module), names in sorted(apart.items()):
        shape = checkpoint.tensors[names[0]]["shape"]
        values = joined([checkpoint.floats(names[expert]) for expert in range(len(names))])
        yield f"blk.{layer}.{module}.weight", [len(names), *shape], values


def is_of_experts(name: str) -> bool:
    return ".experts." in name or name.endswith(GATE_UP_NAMES + DOWN_NAMES)


def is_of_images(name: str, config: dict) -> bool:
    """A tensor beside the language model, which a file of its own would have."""
    return "vision_config" in config and not name.startswith(("model.", "lm_head."))


def has_more_bits(name: str, num_layers: int) -> bool:
    """Whether a Q4_K_M file has six bits here: at both ends, in the first and last eighth of the layers, and in every third
    layer between."""
    layer = re.search(r"(?:layers|blk)\.(\d+)\.", name)
    if not layer or not any(module in name for module in MORE_BITS):
        return any(module in name for module in MORE_BITS)
    number, eighth = int(layer[1]), num_layers // 8
    return number < eighth or number >= 7 * num_layers // 8 or (number - eighth) % 3 == 2


def kind_of(name: str, shape: list[int], outtype: str, num_layers: int) -> int:
    # llama.cpp reads routers of every type, but its converter and its quantiser keep routers in F32.
    if len(shape) == 1 or name.endswith(ROUTERS):
        return F32
    kind = OUTTYPES[outtype]
    if outtype == "q5_mixed" and any(module in name for module in MORE_BITS):
        kind = Q8_0
    if outtype == "q4_k_m" and has_more_bits(name, num_layers):
        kind = Q6_K
    if shape[-1] % k_quants.SUPER_BLOCK != 0:
        kind = WITHOUT_SUPER_BLOCKS.get(kind, kind)
    return F16 if kind in (Q4_0, Q5_0, Q8_0) and shape[-1] % 32 != 0 else kind


def tensors_of(folder: Path, config: dict, outtype: str) -> Iterator[tuple[str, list[int], int, bytes]]:
    """Name, shape (outermost extent first), type and bytes."""
    checkpoint = Checkpoint(folder)
    num_layers = gguf_kinds.size(config, "num_layers")
    kind_of_model = gguf_kinds.kind_of_model(config)
    heads = {"self_attn.q_proj": gguf_kinds.size(config, "num_heads"), "self_attn.k_proj": gguf_kinds.num_kv_heads(config)}
    factors = llama3_factors(config)
    if factors:
        yield "rope_freqs.weight", [len(factors)], F32, array.array("f", factors).tobytes()
    rope = config.get("rope_parameters") or {}
    for length in ("short", "long"):
        if rope.get("rope_type") == "longrope":
            values = array.array("f", rope[f"{length}_factor"])
            yield f"rope_factors_{length}.weight", [len(values)], F32, values.tobytes()
    for name, entry in checkpoint.tensors.items():
        is_taken_apart = is_of_experts(name) and not kind_of_model.has_stacked_experts
        is_tied = name == "lm_head.weight" and config.get("tie_word_embeddings")
        if is_tied or is_taken_apart or is_of_images(name, config):
            continue
        shape, values = entry["shape"], checkpoint.floats(name)
        for module, num_heads in heads.items():
            if kind_of_model.permutes and f".{module}." in name:
                values = permuted(values, shape[0], num_heads)
        if name.endswith(("shared_expert_gate.weight", "moe_statics.e_score_correction_bias")):  # a matrix with one row
            shape = shape[1:]
        for stored, stored_shape, stored_values in gguf_kinds.in_file(name, shape, values, config):
            kind = F32 if stored.endswith(ALWAYS_F32) else kind_of(name, stored_shape, outtype, num_layers)
            yield stored, stored_shape, kind, encoded(stored_values, kind)
    if kind_of_model.has_stacked_experts:
        return
    for name, shape, values in expert_tensors(checkpoint):
        kind = kind_of(name, shape, outtype, num_layers)
        yield name, shape, kind, encoded(values, kind)


# --------------------------------------------------------------------------------------------- metadata


def config_keys(config: dict, outtype: str) -> list[tuple[str, int, object]]:
    name = gguf_kinds.kind_of_model(config).name
    keys = [("general.architecture", STRING, name), ("general.file_type", U32, FILE_TYPES[OUTTYPES[outtype]])]
    if "type_vocab_size" in config:
        keys.append(("tokenizer.ggml.token_type_count", U32, config["type_vocab_size"]))
    return keys + [(f"{name}.{key}", kind, value) for key, kind, value in gguf_kinds.keys_of_model(config)]


def pooling_keys(folder: Path, name: str) -> list[tuple[str, int, object]]:
    """What stands for a text, a token or the mean of all, as a folder of Sentence Transformers says it."""
    path = folder / "1_Pooling" / "config.json"
    pooling = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    kinds = {"pooling_mode_mean_tokens": 1, "pooling_mode_cls_token": 2, "pooling_mode_lasttoken": 3}
    return [(f"{name}.pooling_type", U32, kind) for member, kind in kinds.items() if pooling.get(member)]


# ------------------------------------------------------------------------------------------------- file


def text_bytes(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def value_bytes(kind: int, value) -> bytes:
    if kind == STRING:
        return text_bytes(value)
    if kind == ARRAY:
        inner, values = value
        return struct.pack("<IQ", inner, len(values)) + b"".join(value_bytes(inner, item) for item in values)
    return struct.pack({U32: "<I", I32: "<i", FLOAT: "<f", BOOL: "<?", U64: "<Q", 2: "<H"}[kind], value)


def padding(length: int) -> bytes:
    return b"\0" * (-length % ALIGNMENT)


def write_file(path: Path, keys: list, tensors: list) -> None:
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys))
    for key, kind, value in keys:
        head += text_bytes(key) + struct.pack("<I", kind) + value_bytes(kind, value)
    offset = 0
    for name, shape, kind, raw in tensors:
        head += text_bytes(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, offset)
        offset += len(raw) + len(padding(len(raw)))
    with path.open("wb") as file:
        file.write(head + padding(len(head)))
        for _, _, _, raw in tensors:
            file.write(raw)
            file.write(padding(len(raw)))


def convert(folder: Path, target: Path, outtype: str, num_parts: int = 1) -> list[Path]:
    """Returns the files, the first of which is the model."""
    config = gguf_kinds.text_config(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    keys = config_keys(config, outtype) + pooling_keys(folder, gguf_kinds.kind_of_model(config).name)
    keys += tokenizer_keys(folder, config["vocab_size"])
    tensors = list(tensors_of(folder, config, outtype))
    if num_parts == 1:
        write_file(target, keys, tensors)
        return [target]
    paths = []
    for part in range(num_parts):
        mine = tensors[part * len(tensors) // num_parts : (part + 1) * len(tensors) // num_parts]
        split = [("split.no", 2, part), ("split.count", 2, num_parts), ("split.tensors.count", I32, len(tensors))]
        paths.append(target.with_name(f"{target.stem}-{part + 1:05}-of-{num_parts:05}.gguf"))
        write_file(paths[-1], (keys if part == 0 else []) + split, mine)
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--outtype", choices=OUTTYPES, default="f32")
    parser.add_argument("--parts", type=int, default=1)
    arguments = parser.parse_args()
    for path in convert(arguments.folder, arguments.target, arguments.outtype, arguments.parts):
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
