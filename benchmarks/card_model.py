#!/usr/bin/env python3
"""Predicts the time of a decode step on an H200, node by node, so that a change of CUDA kernels can be judged without a card.

    card_model.py CONFIG.JSON [--requests 1] [--context 256] [--products own|library|overlapped|streamed|streamed-own-rows]
                              [--attention own|flashinfer|roof] [--weights bfloat16|int4_g128|q4_k|...] [--prompt TOKENS]

With --prompt it predicts a prompt of so many tokens instead, alone in a step, for weights in bfloat16, float8 and int8.
CONFIG.JSON is the configuration of a dense model; of a model with num_experts the products of its experts are predicted. --weights says how the matrices of its layers are stored; the head is bfloat16.
No card has run packed products: their times are those of bfloat16 with fewer bytes, or of the instructions that they need. `own` and `library` are the kernels as measured on an H200
(results/2026-11-28-h200.json); `overlapped` is a chain of kernels that only read, where each starts before the one before has
ended, so no product can be faster. `streamed` are kernels that no card has run; with `streamed-own-rows` they quantise and norm their rows themselves.
`flashinfer` is what decision 114 predicts, and `roof` reads the cache at the full bandwidth. card_model_test.py says how far the
predictions are from what was measured. Uses only Python's standard library.
"""

import argparse
import dataclasses
import json
import math

BANDWIDTH = 4.48  # MB/us that a kernel that only reads reaches
NODE_US = 0.7  # from the end of a kernel to the start of the next one in the same graph
LEAST_NODE_US = 0.74  # of a chain whose kernels overlap
NORM_US = 1.0  # the norm in front of a product; chosen so that a step takes as long as was measured at 1B and 8B
BYTES = 2  # bfloat16
# Bytes of an element: those of a column of a panel (src/reprise/tensor/codec_list.inl).
CODECS = {"bfloat16": 2, "q8_0": 34 / 32, "q6_k": 210 / 256, "q4_k": 148 / 256, "q4_0": 18 / 32, "int4_g128": 67 / 128, "int4_g32": 19 / 32,
          "mxfp4": 17 / 32, "nvfp4": 84 / 128, "int8_rows": 1, "f8e4m3_rows": 1, "f8e4m3_g128": 132 / 128, "f4_g64": 36 / 64}
BLOCK = 512  # elements of a packed weight that a warp multiplies at once, with up to eight rows
# Counted in the source: copies, codes, scales, products of the tensor cores, sums.
INSTRUCTIONS_OF_BLOCK = 45
INSTRUCTIONS_OF_CODEC = {"int8_rows": 18, "f8e4m3_rows": 52, "f8e4m3_g128": 56, "f4_g64": 60}
INSTRUCTIONS_PER_US = 132 * 2.8 * 1750  # multiprocessors, instructions of a clock (of 4), clocks
# The same for streamed kernels, with up to four rows and with up to eight: counted in the machine code of nvcc 13.0 for sm_90a. Each wait
# for a slot takes 41 more, for 2,048 elements, or twice as many where a slot has two panels.
STREAMED_INSTRUCTIONS = {"int4_g128": (30, 44), "q4_k": (47, 63), "q8_0": (25, 33), "mxfp4": (63, 71), "int8_rows": (20, 20),
                         "f8e4m3_rows": (55, 55), "f8e4m3_g128": (57, 57), "f4_g64": (80, 80)}
OTHER_STREAMED_INSTRUCTIONS = (68, 84)  # the slowest of the other codecs
INSTRUCTIONS_OF_WAIT = 41 / 4
SMALL_NODE_US = 2.0  # a norm, a quantisation or a rotation of few rows
SMALL_NODES = 5  # of a layer with packed weights: two norms that quantise, two quantisations, rope with the cache
SMALL_NODES_OF_FLOATS = 3  # whose activations are not quantised
# Instructions of a warp for 256 elements of a row that a block of a product quantises itself, without and with a norm: counted in the
# machine code of nvcc 13.0 for sm_90a (105 and 36 for the norm), with 15 for the loop and 25 for the sum of squares.
OWN_ROW_INSTRUCTIONS = (120, 181)
INT8_OWN_ROW_INSTRUCTIONS = (260, 350)  # exact divisions, and the elements are read a second time
FLOAT_OWN_ROW_INSTRUCTIONS = (0, 100)  # counted in the source: a norm, whose result stays elements
OWN_ROW_US = 0.2  # a barrier of eight warps; with a norm one more, and the elements come from the first-level cache again
X_US = 0.6  # x arrives from the second-level cache
OWN_ROW_BYTES = {1: 48 << 10, 2: 32 << 10}  # of all rows, by the panels of a tile
MOST_OWN_ROWS = 4


@dataclasses.dataclass(frozen=True)
class ProductKernel:
    """`start_us + depth * us_per_1000_deep + megabytes / bandwidth`, with the last term larger for more rows.

    The numbers are least squares of relative errors over 15 shapes in the rows that the kernel is for.
    """

    start_us: float
    us_per_1000_deep: float
    bandwidth: float
    more_per_row: float

    def us(self, rows, outputs, depth, bytes_of_element=BYTES, instructions=INSTRUCTIONS_OF_BLOCK):
        megabytes = outputs * depth * bytes_of_element / 1e6
        read_us = megabytes / self.bandwidth * (1 + self.more_per_row * (rows - 1))
        if bytes_of_element != BYTES and self is PRODUCTS["own"]:
            read_us = max(read_us, outputs * depth / BLOCK * instructions / INSTRUCTIONS_PER_US)
        return self.start_us + self.us_per_1000_deep * depth / 1000 + read_us


CACHE_BANDWIDTH = 5.5  # MB/us that all multiprocessors read from the second-level cache (measured by others on an H100)


@dataclasses.dataclass(frozen=True)
class StreamedKernel:
    """Products of up to 8 rows whose copies begin while the kernel before them ends (src/reprise/kernels/cuda/streamed_linear_kernels.cuh).

    Nothing here was measured. Assumed: weights arrive as fast as in a chain of kernels that only read; each 16 rows of the
    weight read all rows of x again, from the second-level cache; and no kernel is shorter than what follows the wait for the kernel
    before it: x arrives (0.6 us), the slots of the ring are multiplied (0.5), sums and results (0.5), the end becomes visible (0.4).

    With packed weights a panel of 16 columns, or one of gates with one of ups, reads all rows of x, which have 1.25 bytes for an element.
    `ahead_us`: how long the kernel before runs while the ring fills; then so much of the weight is there when x is.
    `own_rows_us`: how long each block quantises its rows before it multiplies, after x has arrived. Memory does not idle meanwhile, because
    the ring of the next kernel fills; only the instructions of the product come later.
    """

    bandwidth: float = 4.58
    more_us: float = 0.2
    least_us: float = 2.0
    ring_megabytes: float = 132 * 0.08  # five slots and more of 8 to 17 KB on each multiprocessor

    def us(self, rows, outputs, depth, bytes_of_element=BYTES, instructions=0, ahead_us=0.0, columns_of_tile=16, own_rows_us=0.0):
        elements = outputs * depth
        megabytes = elements * bytes_of_element / 1e6
        if own_rows_us > 0:
            multiplied_us = X_US + own_rows_us + elements / BLOCK * instructions / INSTRUCTIONS_PER_US
            return max(megabytes / self.bandwidth, multiplied_us, self.least_us + own_rows_us) + self.more_us
        of_rows = elements * rows / columns_of_tile * (BYTES if bytes_of_element == BYTES else 1.25) / 1e6
        read_us = max(megabytes / self.bandwidth, (megabytes + of_rows) / CACHE_BANDWIDTH)
        read_us -= min(ahead_us, self.ring_megabytes / self.bandwidth)
        if bytes_of_element != BYTES:
            read_us = max(read_us, elements / BLOCK * instructions / INSTRUCTIONS_PER_US)
        return max(read_us, self.least_us) + self.more_us


PRODUCTS = {
    "own": ProductKernel(2.5, 0.5, 4.2, 0.014),  # 1 to 8 rows
    "library": ProductKernel(3.5, 0.4, 4.4, 0.0015),  # cuBLASLt, 1 to 32 rows
    "overlapped": ProductKernel(0.1, 0.0, 4.58, 0.0),
    "streamed": StreamedKernel(),  # 1 to 8 rows
    "streamed-own-rows": StreamedKernel(),  # the same, and 1 to 4 rows of packed weights are quantised by the product
}

# Prompts. FLOP/us of large products: bfloat16 as measured. Eight bits are not: cuBLAS took 310 us for 4176 x 12288 x 4096 in
# float8 on an H100, 1,356 TFLOP/s (github.com/pytorch/FBGEMM/pull/2764), and int8 has the same peak by the datasheet.
PEAKS = {"bfloat16": 815e6, "f8e4m3_rows": 1350e6, "f8e4m3_g128": 1350e6, "int8_rows": 1350e6}
PROMPT_ATTENTION = 286e6  # FLOP/us of the own kernel, measured at 4,096 tokens with heads of 128
# MB/us of kernels that read and write rows: chosen so that 4,096 tokens take as long as was measured at 8B.
ROW_BANDWIDTH = 2.5

POSITIONS_PER_PART = 256  # of the own attention kernel; a block takes one part of a request and a head of keys
BLOCKS_AT_ONCE = 264  # two on each of 132 multiprocessors


def own_attention_us(requests, context, kv_heads):
    """Blocks come in waves of 22 us; fewer than a wave have the latency of one block. Parts of a request are merged."""
    parts = math.ceil(context / POSITIONS_PER_PART)
    blocks = requests * kv_heads * parts
    waves = math.ceil(blocks / BLOCKS_AT_ONCE)
    merge = 1.7 * math.log2(parts)
    return 14 + 5 * blocks / BLOCKS_AT_ONCE + merge if waves == 1 else 22 * waves + merge


def flashinfer_attention_us(requests, context, kv_heads, head_dim):
    """Not measured: 0.8 of the bandwidth, or 1.5 us for each 128 positions of a part, 3 us around them, and the merge of the parts."""
    parts = min(64, math.ceil(context / POSITIONS_PER_PART))
    tiles = math.ceil(context / parts / 128)
    return max(roof_attention_us(requests, context, kv_heads, head_dim) / 0.8, 3 + 1.5 * tiles + 1.7 * math.log2(parts))


def roof_attention_us(requests, context, kv_heads, head_dim):
    return requests * context * kv_heads * head_dim * 2 * BYTES / 1e6 / BANDWIDTH


def streamed_instructions(weights, rows, panels=1):
    return STREAMED_INSTRUCTIONS.get(weights, OTHER_STREAMED_INSTRUCTIONS)[0 if rows <= 4 else 1] + INSTRUCTIONS_OF_WAIT / panels


def rows_in_product_us(weights, rows, depth, panels, has_norm):
    """How long a block quantises the rows of a product; 0: a kernel before it does."""
    is_int8, is_float = weights == "int8_rows", weights.startswith("f")
    row_bytes = math.ceil(depth * (1 if is_int8 else 2 if is_float else 1.25) / 128) * 128 + 48
    fits = rows <= MOST_OWN_ROWS and rows * row_bytes <= OWN_ROW_BYTES[panels]
    if weights == "bfloat16" or not fits or (is_float and not has_norm):
        return 0.0
    instructions = (INT8_OWN_ROW_INSTRUCTIONS if is_int8 else FLOAT_OWN_ROW_INSTRUCTIONS if is_float else OWN_ROW_INSTRUCTIONS)[has_norm]
    return OWN_ROW_US * (1 + has_norm + is_int8) + rows * math.ceil(depth / 256) * instructions / (INSTRUCTIONS_PER_US / 132)


def panels_of_expert_slot(weights):
    return 1 if weights == "bfloat16" or weights.startswith("f") else 2  # of weights in blocks two panels share the copies of their rows


def streamed_expert_instructions(weights, config, requests):
    """The mean over the experts that have rows: each has four or fewer, or more."""
    few, eight = (streamed_instructions(weights, rows, panels_of_expert_slot(weights)) for rows in (4, 8))
    share = config["num_experts_per_tok"] / config["num_experts"]
    of_rows = [math.comb(requests, n) * share**n * (1 - share) ** (requests - n) for n in range(requests + 1)]
    are_few = sum(of_rows[1:5]) / sum(of_rows[1:])
    return are_few * few + (1 - are_few) * eight


def panels_of_product(name, has_own_rows):
    return 2 if name == "gate_up" or (name == "qkv" and has_own_rows) else 1


def attention_us(attention, requests, context, kv_heads, head_dim):
    if attention == "own":
        return own_attention_us(requests, context, kv_heads)
    if attention == "flashinfer":
        return flashinfer_attention_us(requests, context, kv_heads, head_dim)
    return roof_attention_us(requests, context, kv_heads, head_dim)


def nodes_of(config, requests, context, products, attention, weights="bfloat16"):
    """(name, how many in a step, us of one, MB that one must read) in the order of a step."""
    hidden, inner, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = config.get("head_dim") or hidden // heads
    kernel = PRODUCTS[products]
    quantised_us = dict.fromkeys(("qkv", "o", "gate_up", "down", "head"), 0.0)
    if products == "streamed-own-rows":
        depths = {"qkv": hidden, "o": heads * head_dim, "gate_up": hidden, "down": inner}
        for name, depth in depths.items():
            has_norm = name in ("qkv", "gate_up")
            quantised_us[name] = rows_in_product_us(weights, requests, depth, panels_of_product(name, True), has_norm)

    def product(name, count, outputs, depth, size=CODECS[weights]):
        if size == BYTES:
            us = kernel.us(requests, outputs, depth)
        elif isinstance(kernel, StreamedKernel):
            panels = panels_of_product(name, quantised_us[name] > 0)
            instructions = streamed_instructions(weights, requests, panels)
            # Unless the product does it, a small kernel quantises the rows, or norms or rotates them, while the ring fills.
            # With smaller floats the down product follows that of gates and ups.
            ahead_us = 0.0 if weights.startswith("f") and name == "down" else SMALL_NODE_US
            us = kernel.us(requests, outputs, depth, size, instructions, ahead_us, 16 * panels, quantised_us[name])
        else:
            us = kernel.us(requests, outputs, depth, size, INSTRUCTIONS_OF_CODEC.get(weights, INSTRUCTIONS_OF_BLOCK))
        return name, count, us, outputs * depth * size / 1e6

    cache = requests * context * kv_heads * head_dim * 2 * BYTES / 1e6
    of_layer = SMALL_NODES_OF_FLOATS if weights.startswith("f") else SMALL_NODES
    # A product that quantises its rows saves the kernel that did; that of q, k and v also the one for the rotation and the cache.
    of_layer -= sum(us > 0 for us in quantised_us.values()) + (quantised_us["qkv"] > 0)
    small = [] if weights == "bfloat16" else [("quantise", of_layer * layers, SMALL_NODE_US, 0.0)]
    return [
        product("qkv", layers, (heads + 2 * kv_heads) * head_dim, hidden),
        ("attention", layers, attention_us(attention, requests, context, kv_heads, head_dim), cache),
        product("o", layers, hidden, heads * head_dim),
        product("gate_up", layers, 2 * inner, hidden),
        product("down", layers, hidden, inner),
        product("head", 1, config["vocab_size"], hidden, BYTES),
        ("others", 2, 2.0, 0.0),  # the embedding and the last norm
        *small,
    ]


def prompt_parts(config, tokens, weights="bfloat16"):
    """(name, us of all layers) of a prompt of `tokens` tokens, in a step of its own."""
    hidden, inner, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = config.get("head_dim") or hidden // heads
    qkv = (heads + 2 * kv_heads) * head_dim
    shapes = ((qkv, hidden), (hidden, heads * head_dim), (2 * inner, hidden), (hidden, inner))
    elements = sum(outputs * depth for outputs, depth in shapes)
    # Two norms with residual sums read two rows and write two; rope reads and writes; silu reads gates and ups.
    rows = tokens * (2 * 4 * hidden + 2 * qkv + 3 * inner) * BYTES
    parts = [("products", 2 * tokens * elements / PEAKS[weights]),
             ("attention", 2 * heads * head_dim * tokens**2 / PROMPT_ATTENTION),
             ("norms, rope, silu", rows / 1e6 / ROW_BANDWIDTH)]
    if weights != "bfloat16":
        parts.append(("panels to rows of codes", 2 * elements * CODECS[weights] / 1e6 / BANDWIDTH))
    if weights.startswith("f8"):
        parts.append(("quantised rows", tokens * sum(depth for _, depth in shapes) * (BYTES + 1) / 1e6 / ROW_BANDWIDTH))
    if weights == "int8_rows":  # the norms and silu quantise; sums of int32 become products
        parts.append(("sums to products", tokens * sum(outputs for outputs, _ in shapes) * (4 + 4 + BYTES) / 1e6 / ROW_BANDWIDTH))
    return [(name, layers * us) for name, us in parts]


EXPERT_START_US = 1.5  # of a streamed product of experts, from the wait on: the choice of experts, then the first weights, arrive
ORDER_US = 3.0  # the kernel that orders rows by experts


def distinct_experts(config, requests):
    """How many experts a step reads, if each token chooses at random."""
    experts, chosen = config["num_experts"], config["num_experts_per_tok"]
    return experts * (1 - (1 - chosen / experts) ** requests)


def expert_parts(config, requests, weights="bfloat16", products="streamed"):
    """(name, us, MB that it must read) of the experts of one layer, for tiles of up to eight rows."""
    hidden, inner = config["hidden_size"], config["moe_intermediate_size"]
    size, count = CODECS[weights], distinct_experts(config, requests)
    kernel = PRODUCTS[products]
    rows = 1 if requests == 1 else max(2, requests * config["num_experts_per_tok"] / count)
    order = ORDER_US + NODE_US if requests > 1 else 0.0

    def product(outputs, depth, ahead_us):
        outputs *= count
        megabytes = outputs * depth * size / 1e6
        if products.startswith("streamed"):
            start = 0.0 if ahead_us else EXPERT_START_US
            instructions = streamed_expert_instructions(weights, config, requests)
            us = kernel.us(rows, outputs, depth, size, instructions, ahead_us, 16 * panels_of_expert_slot(weights)) + start
        else:
            us = kernel.us(1, outputs, depth, size, INSTRUCTIONS_OF_CODEC.get(weights, INSTRUCTIONS_OF_BLOCK)) + NODE_US
        return order + us, megabytes

    between = SMALL_NODE_US + NODE_US
    # With one token, the experts are known while the kernel between the products runs.
    is_known = requests == 1 and products.startswith("streamed")
    parts = [("gate_up", *product(2 * inner, hidden, 0.0)), ("silu", between, 0.0)]
    if not weights.startswith("f") and weights != "bfloat16":
        parts.append(("quantise", between, 0.0))
    return parts + [("down", *product(hidden, inner, SMALL_NODE_US if is_known else 0.0))]


def print_experts(config, products):
    print("| experts of a layer | requests | us | least us | of the bandwidth |\n|---|---:|---:|---:|---:|")
    for weights in ("bfloat16", "int4_g128", "f8e4m3_g128", "mxfp4"):
        for requests in (1, 8, 64):
            parts = expert_parts(config, requests, weights, products)
            us, megabytes = (sum(part[i] for part in parts) for i in (1, 2))
            least = megabytes / BANDWIDTH
            print(f"| {weights}, {products} | {requests} | {us:.1f} | {least:.1f} | {least / us:.2f} |")


ROWS_OF_TILE = 16
# Counted in the source, for sixteen rows: as INSTRUCTIONS_OF_CODEC, with the products and loads of eight more rows.
INSTRUCTIONS_OF_SIXTEEN_ROWS = {"int8_rows": 26, "f8e4m3_rows": 68, "f8e4m3_g128": 74}


def own_rows_us(elements, rows, weights):
    """Products of own kernels with all elements of a model. Tiles after the first one find the weight in the cache."""
    megabytes = elements * CODECS[weights] / 1e6
    instructions = elements / BLOCK * INSTRUCTIONS_OF_SIXTEEN_ROWS[weights] / INSTRUCTIONS_PER_US
    tiles = math.ceil(rows / ROWS_OF_TILE)
    return max(megabytes / PRODUCTS["own"].bandwidth, instructions) + (tiles - 1) * max(megabytes / CACHE_BANDWIDTH, instructions)


def library_rows_us(elements, outputs, depths, rows, weights):
    """The same by the library in eight bits: panels become rows of codes, which it reads. `outputs`, `depths`: sums over matrices."""
    megabytes = elements * CODECS[weights] / 1e6
    product = max(2 * rows * elements / PEAKS[weights], megabytes / PRODUCTS["library"].bandwidth)
    around = outputs * (4 + 4 + BYTES) if weights == "int8_rows" else depths * (BYTES + 1)
    return 2 * megabytes / BANDWIDTH + product + rows * around / 1e6 / ROW_BANDWIDTH


def print_prompt(config, tokens):
    names = ["products", "attention", "norms, rope, silu", "panels to rows of codes", "quantised rows", "sums to products"]
    print(f"| a prompt of {tokens} tokens, ms | {' | '.join(names)} | all | against bfloat16 |\n|---|{'---:|' * (len(names) + 2)}")
    whole = sum(us for _, us in prompt_parts(config, tokens))
    for weights in PEAKS:
        parts = dict(prompt_parts(config, tokens, weights))
        total = sum(parts.values())
        cells = [f"{parts[name] / 1e3:.1f}" if name in parts else "" for name in names]
        print(f"| {weights} | {' | '.join(cells)} | {total / 1e3:.1f} | {whole / total:.2f} |")


def step_us(nodes, products):
    if products == "overlapped":
        return sum(count * max(us, LEAST_NODE_US) for _, count, us, _ in nodes)
    if products.startswith("streamed"):
        # Only the other kernels begin after the one before them has ended. The scale of a norm is found before the first product;
        # packed products have norms of their own.
        norm_us = 0 if any(name == "quantise" for name, _, _, _ in nodes) else NORM_US
        return sum(count * (us + {"qkv": norm_us, "gate_up": norm_us}.get(name, 0 if name in ("o", "down", "head") else NODE_US))
                   for name, count, us, _ in nodes)
    # The norms of packed products are nodes of their own.
    has_norms = all(name != "quantise" for name, _, _, _ in nodes)
    normed = ("qkv", "gate_up") if has_norms else ()
    return sum(count * (us + NODE_US + (NORM_US if name in normed else 0)) for name, count, us, _ in nodes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("config")
    parser.add_argument("--requests", type=int, default=1)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--products", choices=PRODUCTS, default="own")
    parser.add_argument("--attention", choices=("own", "flashinfer", "roof"), default="own")
    parser.add_argument("--weights", choices=CODECS, default="bfloat16")
    parser.add_argument("--prompt", type=int, metavar="TOKENS")
    options = parser.parse_args()
    with open(options.config, encoding="utf-8") as file:
        config = json.load(file)
    if options.prompt:
        return print_prompt(config, options.prompt)
    if "num_experts" in config:
        return print_experts(config, options.products)
    nodes = nodes_of(config, options.requests, options.context, options.products, options.attention, options.weights)
    print("| node | of a step | us of one | us of all | least us of all |\n|---|---:|---:|---:|---:|")
    for name, count, us, megabytes in nodes:
        print(f"| {name} | {count} | {us:.1f} | {count * us:.0f} | {count * megabytes / BANDWIDTH:.0f} |")
    total = step_us(nodes, options.products)
    least = sum(count * megabytes for _, count, _, megabytes in nodes) / BANDWIDTH
    print(f"\nA step of {options.requests} request{'s'[:options.requests != 1]}: {total:.0f} us, {least / total:.2f} of the bandwidth.")


if __name__ == "__main__":
    main()
