#pragma once

#include <cstddef>
#include <cstdint>

#include "reprise/device/kernel.h"

namespace reprise::device {

/// The arguments of the CPU kernels of Stream::copy and Stream::fill.
struct CopyArgs {
  std::byte* destination;
  const std::byte* source;
  size_t bytes;
};
struct FillArgs {
  std::byte* destination;
  size_t bytes;
  uint64_t value;  // a byte; the type leaves no padding, which a capture would keep
};

extern const Kernel kCopyKernel;
extern const Kernel kFillKernel;

/// The grid size of both kernels for `bytes` bytes.
[[nodiscard]] uint32_t num_copy_blocks(size_t bytes);

}  // namespace reprise::device
