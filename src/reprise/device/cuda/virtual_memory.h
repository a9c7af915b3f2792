#pragma once

#include <cstddef>

#include "reprise/device/cuda/driver.h"

namespace reprise::device::cuda {

/// Reserves a GPU's addresses separately from memory. A reserved range costs no memory, and memory
/// can be mapped and unmapped at fixed addresses. The class does not record what is mapped.
/// Constant after construction, thread-safe; every call also works while the calling thread
/// captures. Source: CUDA 13 driver API reference, "Virtual Memory Management".
class VirtualMemory {
 public:
  /// \throws DeviceError
  explicit VirtualMemory(const Driver& driver);

  [[nodiscard]] bool is_supported() const noexcept { return granularity_ != 0; }
  /// Addresses and sizes must be multiples of this, in bytes; 0 when the GPU has no virtual memory.
  [[nodiscard]] size_t granularity() const noexcept { return granularity_; }
  [[nodiscard]] size_t round_up(size_t bytes) const noexcept {
    return (bytes + granularity_ - 1) / granularity_ * granularity_;
  }

  /// A new address range without memory. \throws OutOfMemory, DeviceError
  [[nodiscard]] CUdeviceptr reserve(size_t bytes) const;
  /// Returns a whole range of reserve(), in which nothing may be mapped.
  void give_up(CUdeviceptr base, size_t bytes) const noexcept;
  /// Maps new memory with undefined content to addresses without memory. \throws OutOfMemory,
  /// DeviceError, and nothing is mapped
  void map(CUdeviceptr address, size_t bytes) const;
  /// Unmaps a whole range of one map() call. The memory returns to the GPU; the addresses stay
  /// reserved.
  void unmap(CUdeviceptr address, size_t bytes) const noexcept;

 private:
  [[nodiscard]] CUmemAllocationProp memory_of_this_gpu() const noexcept;

  const Driver* driver_;  // owned by the device
  size_t granularity_ = 0;
};

}  // namespace reprise::device::cuda
