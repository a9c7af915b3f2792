#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::device {

/// A borrowed range of device memory.
struct BufferView {
  void* data = nullptr;
  size_t bytes = 0;

  friend bool operator==(const BufferView&, const BufferView&) = default;
};

/// Blocks [begin, end) of a launch's grid, which one worker runs. The kernel loops over them.
struct BlockRange {
  uint32_t begin = 0;
  uint32_t end = 0;
};

/// A CPU kernel is a function that runs a range of blocks. `args` points to the kernel's argument
/// struct, which is trivially copyable. The blocks of a launch may run in any order and on any
/// worker, so they must not depend on each other, and must compute the same bits on every worker.
using CpuKernelFunction = void (*)(const void* args, BlockRange blocks) noexcept;

/// A CUDA kernel is a function in a module image (cubin or fatbin). Its only parameter is the
/// kernel's argument struct, passed by value. A launch's blocks are its grid (x only).
struct CudaKernelCode {
  /// When the kernel's blocks may begin.
  enum class Start : uint8_t {
    after_previous,  // after the previous kernel has ended
    // The kernel itself waits for the kernels ahead of it, before it uses memory that kernels
    // write. So it may begin before the previous kernel has ended, if that one waits like this too.
    early_if_asked,  // if the device is asked for programmatic dependent launch
    early,           // in every launch
  };
  const void* image = nullptr;     // an image is loaded with all its kernels; nullptr: no code
  const char* function = nullptr;  // symbol in the image
  uint32_t threads_per_block = 0;
  uint32_t shared_bytes = 0;  // dynamic shared memory of a block
  Start start = Start::after_previous;
};

/// Device code with a name; there is one kernel for each op, dtype and instruction set. Kernels are
/// constants with static storage duration, so launches refer to them by pointer. A kernel may have
/// code for several devices; a device rejects a kernel that has no code for it.
struct Kernel {
  const char* name;
  CpuKernelFunction cpu = nullptr;
  CudaKernelCode cuda = {};
};

/// Which memory a launch reads or writes. The CPU device decides by these uses where it needs
/// barriers.
struct BufferUse {
  enum class Access : uint8_t { read, write, read_write };

  const void* data = nullptr;
  size_t bytes = 0;
  Access access = Access::read;

  [[nodiscard]] bool writes() const noexcept { return access != Access::read; }
};

/// One call of a kernel. Everything is borrowed and need only live until launch() returns: a
/// capture copies the arguments.
struct Launch {
  const Kernel* kernel = nullptr;
  uint32_t num_blocks = 0;          // grid size; 0 = nothing to do
  std::span<const std::byte> args;  // at most kMaxLaunchArgumentBytes, aligned to 16
  std::span<const BufferUse> uses;  // every buffer that the kernel reads or writes
};

/// The limit of 512 bytes keeps CommandBlocks small. (CUDA would allow 4 KiB.)
inline constexpr size_t kMaxLaunchArgumentBytes = 512;

}  // namespace reprise::device
