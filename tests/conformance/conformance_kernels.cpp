#include "conformance_kernels.h"

#include <atomic>

namespace reprise::device::conformance {
namespace {

constexpr uint32_t mixed(uint32_t a, uint32_t b) noexcept {
  uint32_t x = (a ^ (b * 0x9E3779B9u)) + 0x7F4A7C15u;
  x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
  return x ^ (x >> 13);
}

uint32_t bound(const MixArgs& args, uint32_t block) noexcept {
  return static_cast<uint32_t>(uint64_t{args.num_elements} * block / args.num_blocks);
}

void mix_block(const MixArgs& args, uint32_t block) noexcept {
  for (uint32_t i = bound(args, block); i < bound(args, block + 1); ++i) {
    const uint32_t there = args.first[(i * 7 + args.salt) % args.first_elements];
    const uint32_t far = args.second[args.second_elements - 1 - i % args.second_elements];
    args.destination[i] = mixed(mixed(args.destination[i], there), far ^ args.salt);
  }
}

void dawdle(uint32_t steps) noexcept {
  for (uint32_t i = 0; i < steps; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
}

void run_add(const void* raw, BlockRange blocks) noexcept {
  const auto& args = *static_cast<const AddArgs*>(raw);
  for (uint32_t i = blocks.begin; i < blocks.end; ++i) args.values[i] += args.amount;
}

void run_mix(const void* raw, BlockRange blocks) noexcept {
  const auto& args = *static_cast<const MixArgs*>(raw);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const uint32_t mood = mixed(args.salt, block);
    if (mood % 4 == 0) dawdle(mood % 2000);
    mix_block(args, block);
  }
}

}  // namespace

constinit const Kernel kAdd{.name = "add", .cpu = run_add};
constinit const Kernel kMix{.name = "mix", .cpu = run_mix};

void mix_reference(const MixArgs& args) noexcept {
  for (uint32_t block = 0; block < args.num_blocks; ++block) mix_block(args, block);
}

void launch_add(Stream& stream, uint32_t* values, uint32_t num_blocks, uint32_t amount) {
  const AddArgs args{values, amount};
  const std::array uses{
      BufferUse{values, num_blocks * sizeof(uint32_t), BufferUse::Access::read_write}};
  stream.launch({.kernel = &kAdd,
                 .num_blocks = num_blocks,
                 .args = std::as_bytes(std::span(&args, 1)),
                 .uses = uses});
}

void launch_mix(Stream& stream, const MixArgs& args) {
  const std::array uses{
      BufferUse{args.first, args.first_elements * sizeof(uint32_t), BufferUse::Access::read},
      BufferUse{args.second, args.second_elements * sizeof(uint32_t), BufferUse::Access::read},
      BufferUse{
          args.destination, args.num_elements * sizeof(uint32_t), BufferUse::Access::read_write}};
  stream.launch({.kernel = &kMix,
                 .num_blocks = args.num_blocks,
                 .args = std::as_bytes(std::span(&args, 1)),
                 .uses = uses});
}

}  // namespace reprise::device::conformance
