#pragma once

#include <cstddef>

#include "reprise/device/cuda/cuda_memory.h"

namespace reprise::device::cuda {

/// One range of addresses that gets memory on request, from its beginning on. A pool grows in it
/// without holes between segments and without moving. Works also while the calling thread captures.
/// Used by one thread, the pool's.
class GrowingRange final : public MemorySource {
 public:
  /// Reserves addresses for `most_bytes` at the first request. `memory` belongs to the device and
  /// must support mapping.
  GrowingRange(CudaMemory& memory, size_t most_bytes) noexcept;
  GrowingRange(const GrowingRange&) = delete;
  GrowingRange& operator=(const GrowingRange&) = delete;
  /// \pre all memory was given back
  ~GrowingRange() override;

  [[nodiscard]] bool is_contiguous() const noexcept override { return true; }
  [[nodiscard]] BufferView acquire(size_t bytes) override;
  void give_back(BufferView memory) noexcept override;

 private:
  CudaMemory* memory_;
  size_t reserved_bytes_;
  CUdeviceptr base_ = 0;  // 0 before the first request
  size_t mapped_bytes_ = 0;
};

}  // namespace reprise::device::cuda
