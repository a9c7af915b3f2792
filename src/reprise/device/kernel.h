#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::device {

/// A borrowed stretch of device memory: an address and a length.
struct BufferView {
  void* data = nullptr;
  size_t bytes = 0;

  friend bool operator==(const BufferView&, const BufferView&) = default;
};

/// Blocks [begin, end) of a launch's grid: the share of one worker. Kernels loop over it.
struct BlockRange {
  uint32_t begin = 0;
  uint32_t end = 0;
};

/// A CPU kernel is a function over a range of blocks. `args` points to the kernel's own trivially
/// copyable argument struct. Blocks of one launch may run in any order on any worker, so they must
/// not depend on each other; results are equal bit for bit on whichever worker a block runs.
using CpuKernelFunction = void (*)(const void* args, BlockRange blocks) noexcept;

/// A CUDA kernel is a function of a module image (cubin or fatbin) with one parameter: the kernel's
/// own argument struct, by value. A launch's blocks are its grid (x only).
struct CudaKernelCode {
  const void* image = nullptr;     // every kernel of one image is loaded with it; nullptr = no code
  const char* function = nullptr;  // symbol in the image
  uint32_t threads_per_block = 0;
  uint32_t shared_bytes = 0;  // dynamic shared memory of a block
};

/// Device code with a name: one per op, dtype and instruction set. Kernels are constants with
/// static storage duration, so launches refer to them by pointer. A device runs the code made for
/// it and refuses a kernel without such code.
struct Kernel {
  const char* name;
  CpuKernelFunction cpu = nullptr;
  CudaKernelCode cuda = {};
};

/// The use of one stretch of memory by one launch. The CPU derives barriers from these uses.
struct BufferUse {
  enum class Access : uint8_t { read, write, read_write };

  const void* data = nullptr;
  size_t bytes = 0;
  Access access = Access::read;

  [[nodiscard]] bool writes() const noexcept { return access != Access::read; }
};

/// One call of a kernel with its arguments. Everything is borrowed for the call only; a recorded
/// launch copies the arguments by value.
struct Launch {
  const Kernel* kernel = nullptr;
  uint32_t num_blocks = 0;          // grid size; 0 = nothing to do
  std::span<const std::byte> args;  // at most kMaxLaunchArgumentBytes, aligned to 16
  std::span<const BufferUse> uses;  // every buffer that the kernel reads or writes
};

/// CUDA allows 4 KiB of kernel parameters. The limit here is much lower, to keep a command block
/// compact.
inline constexpr size_t kMaxLaunchArgumentBytes = 512;

}  // namespace reprise::device
