#!/usr/bin/env python3
"""Writes a checkpoint of a named shape with random weights, in the layout of a Hugging Face folder.

    tools/make_random_checkpoint.py qwen2.5-0.5b /tmp/qwen --dtype bf16 --max-shard-size 500MB

For speed measurements, loader tests and goldens: the shape is real, the words are not. Needs only numpy.
A tensor's values depend on the seed and its own name, so sharding and dtype do not change what is drawn.
"""

import argparse
import json
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

BUNDLED = Path(__file__).resolve().parent.parent / "models" / "reprise-tiny"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json")

LLAMA3_SCALING = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                  "original_max_position_embeddings": 8192}
# Original length 32 and theta 100 put the wavelengths of 8 frequencies into all three bands of the scaling rule.
LLAMA3_SCALING_TINY = LLAMA3_SCALING | {"factor": 4.0, "original_max_position_embeddings": 32}

# Weights of the tiny shapes are drawn wide, so that what the layers add outweighs the embedding: with the usual
# 0.02 and tied embeddings the most likely next token is always the token itself.
_TINY = dict(vocab_size=1024, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, max_position_embeddings=512, rms_norm_eps=1e-5, rope_theta=10000.0,
             rope_scaling=None, tie_word_embeddings=True, initializer_range=0.2)
_LLAMA = dict(architectures=["LlamaForCausalLM"], model_type="llama", attention_bias=False, mlp_bias=False)
_MISTRAL = dict(architectures=["MistralForCausalLM"], model_type="mistral", sliding_window=None)
_QWEN2 = dict(architectures=["Qwen2ForCausalLM"], model_type="qwen2", use_sliding_window=False)
_QWEN3 = dict(architectures=["Qwen3ForCausalLM"], model_type="qwen3", attention_bias=False, use_sliding_window=False)
_QWEN3_MOE = dict(architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", attention_bias=False, use_sliding_window=False,
                  norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[])

SHAPES: dict[str, dict] = {
    "tiny-llama": _TINY | _LLAMA | dict(tie_word_embeddings=False, num_key_value_heads=4),
    "tiny-llama-tied": _TINY | _LLAMA,
    "tiny-llama3": _TINY | _LLAMA | dict(rope_scaling=LLAMA3_SCALING_TINY, rope_theta=100.0, num_key_value_heads=1),
    "tiny-mistral": _TINY | _MISTRAL | dict(tie_word_embeddings=False),
    "tiny-qwen2": _TINY | _QWEN2 | dict(rms_norm_eps=1e-6),
    # head_dim * heads differs from hidden_size here, as in Qwen3-0.6B.
    "tiny-qwen3": _TINY | _QWEN3 | dict(rms_norm_eps=1e-6, head_dim=32, rope_theta=1000000.0),
    "tiny-qwen3-moe": _TINY | _QWEN3_MOE | dict(rms_norm_eps=1e-6, head_dim=32, num_experts=8, num_experts_per_tok=3,
                                                moe_intermediate_size=64),
    # 8 of 64 experts: 3.2B parameters altogether, of which each token uses 0.6B.
    "moe-3b": _QWEN3_MOE | dict(
        vocab_size=32768, hidden_size=1536, intermediate_size=6144, num_hidden_layers=20, num_attention_heads=16,
        num_key_value_heads=4, head_dim=128, num_experts=64, num_experts_per_tok=8, moe_intermediate_size=512,
        max_position_embeddings=32768, rms_norm_eps=1e-6, rope_theta=1000000.0, rope_scaling=None,
        tie_word_embeddings=True, initializer_range=0.02),
    # The shape of the 15M model of Karpathy's llama2.c.
    "stories-15m": _LLAMA | dict(
        vocab_size=32000, hidden_size=288, intermediate_size=768, num_hidden_layers=6, num_attention_heads=6,
        num_key_value_heads=6, head_dim=48, max_position_embeddings=1024, rms_norm_eps=1e-5, rope_theta=10000.0,
        rope_scaling=None, tie_word_embeddings=True, initializer_range=0.02),
    "qwen2.5-0.5b": _QWEN2 | dict(
        vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
        num_key_value_heads=2, head_dim=64, max_position_embeddings=32768, rms_norm_eps=1e-6, rope_theta=1000000.0,
        rope_scaling=None, tie_word_embeddings=True, initializer_range=0.02),
    "qwen3-0.6b": _QWEN3 | dict(
        vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
        num_key_value_heads=8, head_dim=128, max_position_embeddings=40960, rms_norm_eps=1e-6, rope_theta=1000000.0,
        rope_scaling=None, tie_word_embeddings=True, initializer_range=0.02),
    "llama-3.2-1b": _LLAMA | dict(
        vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
        num_key_value_heads=8, head_dim=64, max_position_embeddings=131072, rms_norm_eps=1e-5, rope_theta=500000.0,
        rope_scaling=LLAMA3_SCALING | {"factor": 32.0}, tie_word_embeddings=True, initializer_range=0.02),
    "llama-3.1-8b": _LLAMA | dict(
        vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, head_dim=128, max_position_embeddings=131072, rms_norm_eps=1e-5, rope_theta=500000.0,
        rope_scaling=LLAMA3_SCALING, tie_word_embeddings=False, initializer_range=0.02),
    "mistral-7b": _MISTRAL | dict(
        vocab_size=32768, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, head_dim=128, max_position_embeddings=32768, rms_norm_eps=1e-5, rope_theta=1000000.0,
        rope_scaling=None, tie_word_embeddings=False, initializer_range=0.02),
}
DTYPES = {"f32": ("F32", "float32", 4), "f16": ("F16", "float16", 2), "bf16": ("BF16", "bfloat16", 2)}


def tensor_shapes(config: dict) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes, in the order in which they are written."""
    hidden, head = config["hidden_size"], config["head_dim"]
    widths = {"q_proj": config["num_attention_heads"] * head, "k_proj": config["num_key_value_heads"] * head,
              "v_proj": config["num_key_value_heads"] * head}
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden)
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        yield f"{layer}.input_layernorm.weight", (hidden,)
        for name, width in widths.items():
            yield f"{layer}.self_attn.{name}.weight", (width, hidden)
            if config["model_type"] == "qwen2":
                yield f"{layer}.self_attn.{name}.bias", (width,)
        if config["model_type"] in ("qwen3", "qwen3_moe"):
            yield f"{layer}.self_attn.q_norm.weight", (head,)
            yield f"{layer}.self_attn.k_norm.weight", (head,)
        yield f"{layer}.self_attn.o_proj.weight", (hidden, widths["q_proj"])
        yield f"{layer}.post_attention_layernorm.weight", (hidden,)
        if "num_experts" in config:
            yield f"{layer}.mlp.gate.weight", (config["num_experts"], hidden)
            for expert in range(config["num_experts"]):
                for module in ("gate_proj", "up_proj"):
                    yield f"{layer}.mlp.experts.{expert}.{module}.weight", (config["moe_intermediate_size"], hidden)
                yield f"{layer}.mlp.experts.{expert}.down_proj.weight", (hidden, config["moe_intermediate_size"])
            continue
        yield f"{layer}.mlp.gate_proj.weight", (config["intermediate_size"], hidden)
        yield f"{layer}.mlp.up_proj.weight", (config["intermediate_size"], hidden)
        yield f"{layer}.mlp.down_proj.weight", (hidden, config["intermediate_size"])
    yield "model.norm.weight", (hidden,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (config["vocab_size"], hidden)


def draw(name: str, shape: tuple[int, ...], config: dict, seed: int) -> np.ndarray:
    """float32 values. Norm weights lie near 1 and biases are not zero: a kernel that ignores them must be caught."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    values = rng.standard_normal(shape, dtype=np.float32)
    if name.endswith("norm.weight"):
        return 1.0 + np.float32(0.1) * values
    if name.endswith(".bias"):
        return values * np.float32(0.1)
    is_embedding = name in ("model.embed_tokens.weight", "lm_head.weight")
    return values * np.float32(config["initializer_range"] * (0.5 if is_embedding else 1.0))


def to_bytes(values: np.ndarray, dtype: str) -> bytes:
    if dtype == "f32":
        return values.astype("<f4").tobytes()
    if dtype == "f16":
        return values.astype("<f2").tobytes()
    # bfloat16 is the upper half of a float32; round to nearest even, as every converter does.
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()


def write_safetensors(path: Path, names: list[tuple[str, tuple[int, ...]]], dtype: str, config: dict, seed: int) -> None:
    tag, _, width = DTYPES[dtype]
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in names:
        begin, end = end, end + width * int(np.prod(shape))
        header[name] = {"dtype": tag, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data starts aligned to 8 bytes, as the format asks
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in names:
            file.write(to_bytes(draw(name, shape, config, seed), dtype))


def split_into_shards(names: list[tuple[str, tuple[int, ...]]], width: int, limit: int | None) -> list[list]:
    shards: list[list] = [[]]
    used = 0
    for name, shape in names:
        size = width * int(np.prod(shape))
        if limit is not None and shards[-1] and used + size > limit:
            shards.append([])
            used = 0
        shards[-1].append((name, shape))
        used += size
    return shards


def write_checkpoint(config: dict, out: Path, dtype: str = "bf16", seed: int = 0, max_shard_bytes: int | None = None,
                     with_tokenizer: bool = True) -> None:
    out.mkdir(parents=True, exist_ok=True)
    _, torch_name, width = DTYPES[dtype]
    has_tokenizer = with_tokenizer and _copy_tokenizer(config, out)
    # The ids of the bundled tokenizer: 0 is <|endoftext|>, 2 is <|im_end|>. Without this tokenizer the ids have no
    # meaning.
    published = config | {"hidden_act": "silu", "bos_token_id": 0, "eos_token_id": 2 if has_tokenizer else 1,
                          "torch_dtype": torch_name, "use_cache": True}
    (out / "config.json").write_text(json.dumps(dict(sorted(published.items())), indent=2) + "\n")

    names = list(tensor_shapes(config))
    shards = split_into_shards(names, width, max_shard_bytes)
    if len(shards) == 1:
        write_safetensors(out / "model.safetensors", names, dtype, config, seed)
        return
    where: dict[str, str] = {}
    for i, shard in enumerate(shards, 1):
        file = f"model-{i:05d}-of-{len(shards):05d}.safetensors"
        write_safetensors(out / file, shard, dtype, config, seed)
        where |= {name: file for name, _ in shard}
    total = sum(width * int(np.prod(shape)) for _, shape in names)
    index = {"metadata": {"total_size": total}, "weight_map": where}
    (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def _copy_tokenizer(config: dict, out: Path) -> bool:
    """Takes the bundled tokenizer where all its ids exist in this vocabulary. Higher ids then decode to nothing."""
    source = BUNDLED / "tokenizer.json"
    if not source.exists():
        return False
    tokenizer = json.loads(source.read_text(encoding="utf-8"))
    if len(tokenizer["model"]["vocab"]) > config["vocab_size"]:
        return False
    for name in TOKENIZER_FILES:
        if (BUNDLED / name).exists():
            shutil.copy(BUNDLED / name, out / name)
    return True


def parse_bytes(text: str) -> int:
    for suffix, factor in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if text.upper().endswith(suffix):
            return int(float(text[:-2]) * factor)
    return int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-shard-size", type=parse_bytes, help="such as 500MB; default: one file")
    parser.add_argument("--vocab-size", type=int, help="instead of the shape's own")
    parser.add_argument("--num-hidden-layers", type=int, help="instead of the shape's own")
    options = parser.parse_args()
    config = dict(SHAPES[options.shape])
    for key in ("vocab_size", "num_hidden_layers"):
        if getattr(options, key) is not None:
            config[key] = getattr(options, key)
    write_checkpoint(config, options.out, options.dtype, options.seed, options.max_shard_size)
    count = sum(int(np.prod(shape)) for _, shape in tensor_shapes(config))
    print(f"{options.out}: {options.shape}, {count:,} parameters, {options.dtype}")


if __name__ == "__main__":
    main()
