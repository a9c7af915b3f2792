#pragma once

#include <cstdint>

/// The arguments and computations of the suite's kernels; host and device compilers read this file.
namespace reprise::device::conformance {

/// Adds `amount` to one element per block: counts how often each block ran.
struct AddArgs {
  uint32_t* values;  // [num_blocks]
  uint32_t amount;
};

/// Hashes elements of two sources into the destination. Blocks divide the destination evenly and
/// read the sources at distant places, so a block depends on blocks of earlier launches that ran on
/// other workers. Some blocks run slowly, to vary the timing.
struct MixArgs {
  uint32_t* destination;   // [num_elements]; read too
  const uint32_t* first;   // [first_elements]
  const uint32_t* second;  // [second_elements]
  uint32_t num_elements;
  uint32_t first_elements;
  uint32_t second_elements;
  uint32_t num_blocks;
  uint32_t salt;
};

constexpr uint32_t mix_numbers(uint32_t a, uint32_t b) {
  uint32_t x = (a ^ (b * 0x9E3779B9u)) + 0x7F4A7C15u;
  x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
  return x ^ (x >> 13);
}

/// The first element of a block.
constexpr uint32_t mix_bound(const MixArgs& args, uint32_t block) {
  return static_cast<uint32_t>(uint64_t{args.num_elements} * block / args.num_blocks);
}

constexpr void mix_element(const MixArgs& args, uint32_t i) {
  const uint32_t there = args.first[(i * 7 + args.salt) % args.first_elements];
  const uint32_t far = args.second[args.second_elements - 1 - i % args.second_elements];
  args.destination[i] = mix_numbers(mix_numbers(args.destination[i], there), far ^ args.salt);
}

}  // namespace reprise::device::conformance
