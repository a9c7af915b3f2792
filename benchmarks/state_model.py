#!/usr/bin/env python3
"""Counts what a layer of recurrent states does for a prompt on a GPU: token after token, and in chunks on the tensor cores.

    state_model.py [--family delta|mamba2] [--heads 32] [--keys 128] [--values 128] [--tokens 4096] [--requests 1]

The counts follow the source of the kernels (src/reprise/kernels/cuda/state_kernels.cuh, state_chunk.cuh and
chunked_state_kernels.cuh). Bytes are those that threads load and store, in every level of the memory. Uses only Python's
standard library.
"""

import argparse
import dataclasses

CHUNK = 64  # tokens
TILE = 16  # rows and depth of a product on the tensor cores; its columns are half of that
OPERATIONS = 2 * TILE * TILE * TILE // 2  # of one product, mma.m16n8k16
ELEMENT = 2  # bytes of bfloat16
STATE = 4  # bytes of float32


@dataclasses.dataclass(frozen=True)
class Layer:
    """Mamba-2: heads of `values` elements and rows of `keys` elements."""

    is_delta: bool
    heads: int
    keys: int
    values: int

    @property
    def state_bytes(self):
        return self.heads * self.keys * self.values * STATE

    @property
    def operand_bytes(self):
        """Of a token: a key, a query, a value and a result of each head."""
        return self.heads * (2 * self.keys + 2 * self.values) * ELEMENT


def bytes_token_after_token(layer, tokens, requests=1):
    """A thread of a gated delta net reads and writes each element of its column twice: for the decay and for the change."""
    passes = 2 if layer.is_delta else 1
    return requests * tokens * (2 * passes * layer.state_bytes + layer.operand_bytes)


def bytes_in_chunks(layer, tokens, requests=1):
    """The state is read before the first chunk and written after the last one."""
    return requests * (2 * layer.state_bytes + tokens * layer.operand_bytes)


def products_of_chunk(layer):
    """Products on the tensor cores for one chunk of one head, with operands in bfloat16."""
    depth = -(-layer.keys // 64) * 64 // TILE  # keys are padded to what a kernel exists for
    warps = -(-layer.values // TILE)
    # Keys or queries with keys: a tile of 16 rows has 2, 4, 6, 8 tiles of columns up to the diagonal.
    triangle = depth * (2 + 4 + 6 + 8)
    # The numbers have two terms, and a triangle of 64 x 64 has 20 tiles up to the diagonal.
    answer = 2 * depth * (CHUNK // (TILE // 2))
    solve = 3 * 20
    change = 2 * (CHUNK // TILE) * 2 * depth
    if layer.is_delta:
        return 2 * triangle + warps * (2 * answer + 2 * solve + change)
    return triangle + warps * (answer + solve + change)


def operations_in_chunks(layer, tokens, requests=1):
    return requests * -(-tokens // CHUNK) * layer.heads * products_of_chunk(layer) * OPERATIONS


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--family", choices=("delta", "mamba2"), default="delta")
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--keys", type=int, default=128)
    parser.add_argument("--values", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--requests", type=int, default=1)
    options = parser.parse_args()
    layer = Layer(options.family == "delta", options.heads, options.keys, options.values)
    before = bytes_token_after_token(layer, options.tokens, options.requests)
    after = bytes_in_chunks(layer, options.tokens, options.requests)
    passes = -(-options.tokens // CHUNK)
    operations = operations_in_chunks(layer, options.tokens, options.requests)
    print("| | token after token | in chunks |\n|---|---:|---:|")
    print(f"| MB loaded and stored | {before / 1e6:.0f} | {after / 1e6:.0f} |")
    print(f"| passes over the state, one after the other | {options.tokens} | {passes} |")
    print(f"| launches | 1 | 2 |\n| GFLOP on the tensor cores | 0 | {operations / 1e9:.1f} |")
    print(f"\n{before / after:.0f} times fewer bytes, {options.tokens / passes:.0f} times fewer passes.")


if __name__ == "__main__":
    main()
