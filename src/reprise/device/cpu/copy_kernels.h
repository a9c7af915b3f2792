#pragma once

#include <cstddef>
#include <cstdint>

#include "reprise/device/kernel.h"

namespace reprise::device {

/// What Stream::copy and Stream::fill launch on the CPU.
struct CopyArgs {
  std::byte* destination;
  const std::byte* source;
  size_t bytes;
};
struct FillArgs {
  std::byte* destination;
  size_t bytes;
  std::byte value;
};

extern const Kernel kCopyKernel;
extern const Kernel kFillKernel;

/// Grid of both: one block for so many bytes.
[[nodiscard]] uint32_t num_copy_blocks(size_t bytes);

}  // namespace reprise::device
