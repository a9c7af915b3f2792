"""The image of the CUDA kernels holds machine code for each architecture asked for, and PTX of the oldest;
kernels on the tensor cores keep what they compute with in registers.

usage: cuda_image_test.py [--fast] IMAGE.fatbin ARCHITECTURE... [--without-ptx]
       ARCHITECTURE: such as 80 or 90a; IMAGE.fatbin.log: from ptxas -v; --fast: compiled with few optimisations, so
       registers are not looked at
"""

import re
import struct
import sys

MAGIC = 0xBA55ED50
PTX, MACHINE_CODE = 1, 2


def entries(image):
    """(kind, architecture) of every entry. Source of the layout: what nvcc 12 and 13 write."""
    magic, _, header_bytes, _ = struct.unpack_from("<IHHQ", image)
    if magic != MAGIC:
        raise ValueError(f"magic {magic:#x}, expected {MAGIC:#x}")
    at = header_bytes
    while at < len(image):
        kind, _, entry_header_bytes, bytes_of_code = struct.unpack_from("<HHIQ", image, at)
        yield kind, struct.unpack_from("<I", image, at + 28)[0]
        at += entry_header_bytes + bytes_of_code


# Kernels that may spill registers around divisions of 64 bits: a warp for each row, a copy, or a plain recurrence. None
# of them keeps fragments in registers. The kernels of FlashInfer are not ours.
MAY_SPILL = re.compile("_by_rows_|kv_write$|block_embedding_|_conv1d_|short_conv_|_state_update_|_delta_rule_|flashinfer")
# A row-wise kernel that waits for memory, and whose sixteen divisions by calls save a few registers each time.
MAY_SPILL_AROUND_DIVISIONS = re.compile("_silu_and_mul_quant_")
SPILLED_AROUND_DIVISIONS = 64


# Bytes that a thread of any kernel may store and load again, together: ptxas spills a few so that one more block fits on a
# multiprocessor (128, 96 or 168 registers). A fragment that does not fit costs far more.
SPILLED_FOR_A_BLOCK = 32
# The same for kernels that compute prompts of recurrent layers: their state fills the registers, and ptxas stores addresses
# and factors that a chunk of 64 tokens loads once. The 256 elements of each row of Mamba-2's largest states take half of
# all registers, and elements of float16 have two terms; even so a chunk loads less than a hundredth of its state again.
SPILLED_IN_A_CHUNK = 128
SPILLED_IN_A_WIDE_CHUNK = 1200

# The largest kernel of latent attention: addresses, in its code for compute capability 8, whose GPUs have too little shared
# memory for it.
SPILLED_IN_WIDE_TILES = 96


def spills(log):
    """(kernel, architecture, bytes) of every kernel in the log."""
    pattern = r"Compiling entry function '(\w+)' for '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads"
    return [(name, architecture, int(stores) + int(loads))
            for name, architecture, stores, loads in re.findall(pattern, log, re.S)]


def most_spilled(kernel):
    if MAY_SPILL_AROUND_DIVISIONS.search(kernel):
        return SPILLED_AROUND_DIVISIONS
    if "wide_latent_attention_512" in kernel:
        return SPILLED_IN_WIDE_TILES
    if "selective_chunks_256" in kernel:
        return SPILLED_IN_A_WIDE_CHUNK
    return SPILLED_IN_A_CHUNK if "_chunks_" in kernel else SPILLED_FOR_A_BLOCK


def main():
    is_fast = sys.argv[1] == "--fast"
    image, *names = sys.argv[2:] if is_fast else sys.argv[1:]
    with open(image, "rb") as file:
        found = set(entries(file.read()))
    without_ptx = "--without-ptx" in names
    architectures = [int(name.rstrip("af")) for name in names if name != "--without-ptx"]
    wanted = {(MACHINE_CODE, architecture) for architecture in architectures}
    if not without_ptx:
        wanted.add((PTX, architectures[0]))
    if not wanted <= found:
        sys.exit(f"{image}: holds {sorted(found)}, expected {sorted(wanted)} (1: PTX, 2: machine code)")
    with open(image + ".log") as file:
        kernels = spills(file.read())
    if len({name for name, _, _ in kernels}) * len(architectures) != len(kernels) or not kernels:
        sys.exit(f"{image}.log: {len(kernels)} kernels, expected each one for {architectures}")
    if is_fast:
        return
    if spilled := [kernel for kernel in kernels if kernel[2] > most_spilled(kernel[0]) and not MAY_SPILL.search(kernel[0])]:
        sys.exit(f"registers are spilled (kernel, architecture, bytes): {spilled}")


if __name__ == "__main__":
    main()
