#pragma once

#include <cstddef>

#include "reprise/device/cuda/driver.h"

namespace reprise::device::cuda {

/// Addresses of a GPU, managed separately from the memory mapped at them: a reserved range costs
/// nothing, and memory can be mapped and unmapped at addresses that stay. The class does not record
/// the mappings. Constant after construction, thread-safe; every call also works while the calling
/// thread captures.
/// Source: CUDA 13 driver API reference, "Virtual Memory Management".
class VirtualMemory {
 public:
  /// \throws DeviceError
  explicit VirtualMemory(const Driver& driver);

  [[nodiscard]] bool is_supported() const noexcept { return granularity_ != 0; }
  /// Addresses and sizes below are multiples of this number of bytes; 0 when the GPU does not
  /// support mapping.
  [[nodiscard]] size_t granularity() const noexcept { return granularity_; }
  [[nodiscard]] size_t round_up(size_t bytes) const noexcept {
    return (bytes + granularity_ - 1) / granularity_ * granularity_;
  }

  /// Reserves addresses without memory. Nothing else uses these addresses. \throws OutOfMemory,
  /// DeviceError
  [[nodiscard]] CUdeviceptr reserve(size_t bytes) const;
  /// Frees exactly one range of reserve(); no part of it may be mapped.
  void give_up(CUdeviceptr base, size_t bytes) const noexcept;
  /// Maps new memory with undefined content at reserved addresses that have no memory.
  /// \throws OutOfMemory, DeviceError; then nothing is mapped
  void map(CUdeviceptr address, size_t bytes) const;
  /// Unmaps exactly one range of map(). The memory goes back to the GPU, and the addresses stay
  /// reserved.
  void unmap(CUdeviceptr address, size_t bytes) const noexcept;

 private:
  [[nodiscard]] CUmemAllocationProp memory_of_this_gpu() const noexcept;

  const Driver* driver_;  // owned by the device
  size_t granularity_ = 0;
};

}  // namespace reprise::device::cuda
