#pragma once

#include <cstddef>

#include "reprise/device/cuda/driver.h"

namespace reprise::device::cuda {

/// A GPU's addresses apart from the memory behind them: a reserved range costs nothing, and memory
/// comes and goes at addresses that stay. Keeps no books of what is mapped. Constant after
/// construction, thread-safe; every call also works while the calling thread captures.
/// Source: CUDA 13 driver API reference, "Virtual Memory Management".
class VirtualMemory {
 public:
  /// \throws DeviceError
  explicit VirtualMemory(const Driver& driver);

  [[nodiscard]] bool is_supported() const noexcept { return granularity_ != 0; }
  /// Bytes that addresses and sizes below are multiples of; 0 where the GPU cannot do it.
  [[nodiscard]] size_t granularity() const noexcept { return granularity_; }
  [[nodiscard]] size_t round_up(size_t bytes) const noexcept {
    return (bytes + granularity_ - 1) / granularity_ * granularity_;
  }

  /// Addresses of nobody else, without memory. \throws OutOfMemory, DeviceError
  [[nodiscard]] CUdeviceptr reserve(size_t bytes) const;
  /// Exactly what reserve() gave; nothing of it may be mapped.
  void give_up(CUdeviceptr base, size_t bytes) const noexcept;
  /// Puts new memory, of any content, behind addresses that have none.
  /// \throws OutOfMemory, DeviceError, and nothing is mapped
  void map(CUdeviceptr address, size_t bytes) const;
  /// Exactly what map() was asked for. The memory goes back to the GPU, the addresses stay
  /// reserved.
  void unmap(CUdeviceptr address, size_t bytes) const noexcept;

 private:
  [[nodiscard]] CUmemAllocationProp memory_of_this_gpu() const noexcept;

  const Driver* driver_;  // the device's
  size_t granularity_ = 0;
};

}  // namespace reprise::device::cuda
