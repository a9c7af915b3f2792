#include "reprise/device/cpu/copy_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "reprise/device/error.h"

namespace reprise::device {
namespace {

// Copying one block takes a few microseconds, much longer than waking another worker.
constexpr size_t kBytesPerBlock = size_t{64} << 10;

struct Stretch {
  size_t offset;
  size_t bytes;
};

Stretch stretch_of(BlockRange blocks, size_t bytes) noexcept {
  const size_t begin = blocks.begin * kBytesPerBlock;
  return {begin, std::min(bytes, blocks.end * kBytesPerBlock) - begin};
}

void run_copy(const void* raw, BlockRange blocks) noexcept {
  const auto& args = *static_cast<const CopyArgs*>(raw);
  const Stretch part = stretch_of(blocks, args.bytes);
  std::memcpy(args.destination + part.offset, args.source + part.offset, part.bytes);
}

void run_fill(const void* raw, BlockRange blocks) noexcept {
  const auto& args = *static_cast<const FillArgs*>(raw);
  const Stretch part = stretch_of(blocks, args.bytes);
  std::memset(args.destination + part.offset, static_cast<int>(args.value), part.bytes);
}

}  // namespace

constinit const Kernel kCopyKernel{.name = "copy", .cpu = run_copy};
constinit const Kernel kFillKernel{.name = "fill", .cpu = run_fill};

uint32_t num_copy_blocks(size_t bytes) {
  const size_t blocks = bytes / kBytesPerBlock + (bytes % kBytesPerBlock != 0 ? 1 : 0);
  if (blocks > std::numeric_limits<uint32_t>::max()) {
    throw DeviceError(fmt::format("cpu: copy or fill of {} bytes; no buffer is that long", bytes));
  }
  return static_cast<uint32_t>(blocks);
}

}  // namespace reprise::device
