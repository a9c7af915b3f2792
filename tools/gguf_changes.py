"""What llama.cpp's convert_hf_to_gguf.py changes about tensors: their order, their values, and which are cut in two.

Values are float32 in an array.array or a numpy array; both can be cut and joined alike.
"""

import array
import math
from collections.abc import Callable, Iterator

try:
    import numpy
except ImportError:
    numpy = None

# Other names of the members with sizes.
SIZES = {
    "hidden_size": ("hidden_size", "n_embd"), "num_layers": ("num_hidden_layers", "n_layer"),
    "num_heads": ("num_attention_heads", "n_head"), "positions": ("max_position_embeddings", "n_positions"),
    "intermediate_size": ("ffn_hidden_size", "intermediate_size", "n_inner"),
    "epsilon": ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"),
}


def size(config: dict, name: str, default=None):
    return next((config[member] for member in SIZES[name] if config.get(member) is not None), default)


def num_kv_heads(config: dict) -> int:
    heads = size(config, "num_heads")
    if "multi_query" in config and not config.get("new_decoder_architecture"):
        return 1 if config["multi_query"] else heads
    return config.get("num_kv_heads" if "multi_query" in config else "num_key_value_heads", heads)


def experts_of(config: dict) -> int:
    return config.get("num_local_experts") or config.get("num_experts") or 0


def joined(arrays: list):
    if numpy:
        return numpy.concatenate(arrays)
    return array.array("f", b"".join(values.tobytes() for values in arrays))


def mapped(values, function: Callable[[float], float]):
    changed = array.array("f", map(function, values))
    return numpy.frombuffer(changed, "<f4") if numpy else changed


# One tensor of a checkpoint, and the tensors of the file that it becomes: name in the file, shape, values.
Tensor = tuple[str, list[int], object]
Change = Callable[[str, list[int], object, dict], Iterator[Tensor]]


def plus_one(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    yield name, shape, mapped(values, lambda value: value + 1)


def transposed(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    rows, columns = shape
    yield name, [columns, rows], joined([values[column::columns] for column in range(columns)])


def minus_exp(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    yield name, shape, mapped(values, lambda value: -math.exp(value))


def minus_exp_of_heads(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    yield name, [*shape, 1], mapped(values, lambda value: -math.exp(value))


def with_one_column(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    yield name, [*shape, 1], values


def with_one_more_extent(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    yield name, [1, *shape], values


def without_channels(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    """Of a convolution that has one input channel for each output channel."""
    yield name, [shape[0], shape[2]], values


def norm_in_groups(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    groups = config.get("n_groups") or config["mamba_n_groups"]
    yield name, [groups, shape[0] // groups], values


def gate_and_up(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    half, suffix = len(values) // 2, "_shexp" if experts_of(config) else ""
    for part, part_values in (("ffn_gate", values[:half]), ("ffn_up", values[half:])):
        yield name.replace("ffn_gate_up", part + suffix), [shape[0] // 2, *shape[1:]], part_values


def down_of_shared_expert(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    yield name.replace("ffn_down", "ffn_down_shexp" if experts_of(config) else "ffn_down"), shape, values


def stacked_gate_and_up(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    """Experts of GPT-OSS, [experts, in, out] with the columns of gate and up in turn."""
    num_experts, *_, columns = shape
    rows = shape[1] if len(shape) == 3 else 1
    block = rows * columns
    for place, part in enumerate(("ffn_gate_exps", "ffn_up_exps")):
        of_part = [values[expert * block : (expert + 1) * block][column::columns]
                   for expert in range(num_experts) for column in range(place, columns, 2)]
        part_shape = [num_experts, columns // 2] + ([rows] if len(shape) == 3 else [])
        yield name.replace("ffn_gate_up_exps", part), part_shape, joined(of_part)


def stacked_down(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    num_experts, rows, columns = shape
    block = rows * columns
    yield name, [num_experts, columns, rows], joined([
        values[expert * block : (expert + 1) * block][column::columns]
        for expert in range(num_experts) for column in range(columns)])


def keys_then_values(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    """The rows that make keys and values from a latent: those of keys with rows and columns exchanged."""
    heads, latent = config["num_attention_heads"], shape[1]
    key, value = config["qk_nope_head_dim"] * latent, config["v_head_dim"] * latent
    blocks = [values[head * (key + value) : (head + 1) * (key + value)] for head in range(heads)]
    yield (name.replace("attn_kv_b", "attn_k_b"), [heads, latent, key // latent],
           joined([block[:key][column::latent] for block in blocks for column in range(latent)]))
    yield (name.replace("attn_kv_b", "attn_v_b"), [heads, value // latent, latent],
           joined([block[key:] for block in blocks]))


def q_k_v_and_gate(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    """The checkpoint has q, k, v and the gate of each group of heads together."""
    groups, row = config["linear_num_key_heads"], shape[1]
    key = config["linear_key_head_dim"] * row
    value = config["linear_num_value_heads"] // groups * config["linear_value_head_dim"] * row
    of_group = [values[i * 2 * (key + value) : (i + 1) * 2 * (key + value)] for i in range(groups)]
    bounds = [0, key, 2 * key, 2 * key + value, 2 * (key + value)]
    parts = [joined([group[begin:end] for group in of_group]) for begin, end in zip(bounds, bounds[1:])]
    gate_rows = groups * value // row
    yield name.replace("attn_qkvz", "attn_qkv"), [shape[0] - gate_rows, row], joined(parts[:3])
    yield name.replace("attn_qkvz", "attn_gate"), [gate_rows, row], parts[3]


def times_multipliers(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    """Falcon-H1: the file's weights have all factors in them."""
    given = config.get
    attention_in = given("attention_in_multiplier", 1)
    factors = {
        "ffn_gate": config["mlp_multipliers"][0], "ffn_down": config["mlp_multipliers"][1], "attn_q": attention_in,
        "attn_k": attention_in * given("key_multiplier", 1), "attn_v": attention_in,
        "attn_output": given("attention_out_multiplier", 1), "ssm_out": given("ssm_out_multiplier", 1),
        "ssm_in": given("ssm_in_multiplier", 1), "output": given("lm_head_multiplier", 1),
        "token_embd": given("embedding_multiplier", 1)}
    module = name.removesuffix(".weight").split(".")[-1]
    factor = factors[module]
    if module != "ssm_in":
        yield name, shape, mapped(values, lambda value: value * factor)
        return
    group = config["mamba_n_groups"] * config["mamba_d_state"]
    rows = [config["mamba_d_ssm"]] * 2 + [group] * 2 + [config["mamba_n_heads"]]
    of_rows = [part for part, count in zip(config["ssm_multipliers"], rows) for _ in range(count * shape[1])]
    changed = array.array("f", (value * factor * part for value, part in zip(values, of_rows)))
    yield name, shape, numpy.frombuffer(changed, "<f4") if numpy else changed


def q_then_k_then_v(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    """The checkpoint has the heads of q that share a head of k and v, then these two, then the next such group."""
    groups = num_kv_heads(config)
    per_group = size(config, "num_heads") // groups
    head = len(values) // (groups * (per_group + 2))
    of_group = [values[i * head * (per_group + 2) : (i + 1) * head * (per_group + 2)] for i in range(groups)]
    parts = [(0, per_group), (per_group, per_group + 1), (per_group + 1, per_group + 2)]
    yield name, shape, joined([group[begin * head : end * head] for begin, end in parts for group in of_group])


def halves_of_columns(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    """Experts of Llama 4, [experts, in, out] with the columns of the gate before those of up."""
    num_experts, rows, columns = shape
    block, half = rows * columns, columns // 2
    for begin, part in ((0, "ffn_gate_exps"), (half, "ffn_up_exps")):
        yield name.replace("ffn_gate_up_exps", part), [num_experts, half, rows], joined([
            values[expert * block : (expert + 1) * block][column::columns]
            for expert in range(num_experts) for column in range(begin, begin + half)])


def tiled(values, config: dict):
    """The heads of values of Qwen3.5: those that share a query and key lie apart in the file, one of each group in turn."""
    heads, groups = config["linear_num_value_heads"], config["linear_num_key_heads"]
    block = len(values) // heads
    order = [group * (heads // groups) + place for place in range(heads // groups) for group in range(groups)]
    return joined([values[head * block : (head + 1) * block] for head in order])


def tiled_rows(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    yield name, shape, tiled(values, config)


def tiled_rows_behind_keys(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    """Also of the convolution, whose single input channel the file leaves out."""
    begin = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"] * shape[-1]
    yield name, [shape[0], shape[-1]], joined([values[:begin], tiled(values[begin:], config)])


def tiled_columns(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    rows, columns = shape
    yield name, shape, joined([tiled(values[row * columns : (row + 1) * columns], config) for row in range(rows)])


def tiled_minus_exp(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    yield name, shape, tiled(mapped(values, lambda value: -math.exp(value)), config)


def nothing(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    yield from ()


def behind_padding(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    """Without the rows up to that of the padding, which are of no position."""
    first = config["pad_token_id"] + 1
    yield name, [shape[0] - first, shape[1]], values[first * shape[1] :]
