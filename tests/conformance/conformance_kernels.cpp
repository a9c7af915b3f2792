#include "conformance_kernels.h"

#include <atomic>

// Machine code of conformance_kernels.cu; a placeholder without nvcc.
extern "C" const unsigned char reprise_conformance_image[];

namespace reprise::device::conformance {
namespace {

void mix_block(const MixArgs& args, uint32_t block) noexcept {
  for (uint32_t i = mix_bound(args, block); i < mix_bound(args, block + 1); ++i) {
    mix_element(args, i);
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
    const uint32_t mood = mix_numbers(args.salt, block);
    if (mood % 4 == 0) dawdle(mood % 2000);
    mix_block(args, block);
  }
}

}  // namespace

constinit const Kernel kAdd{
    .name = "add",
    .cpu = run_add,
    .cuda = {.image = reprise_conformance_image, .function = "add", .threads_per_block = 32}};
constinit const Kernel kMix{
    .name = "mix",
    .cpu = run_mix,
    .cuda = {.image = reprise_conformance_image, .function = "mix", .threads_per_block = 64}};

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
