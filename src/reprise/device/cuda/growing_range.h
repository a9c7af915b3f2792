#pragma once

#include <cstddef>

#include "reprise/device/cuda/cuda_memory.h"

namespace reprise::device::cuda {

/// One range of addresses that is backed with memory from its start on, as requests arrive. A pool
/// grows inside it without holes between segments and without moving. Works while the calling
/// thread captures. Used by one thread, the pool's.
class GrowingRange final : public MemorySource {
 public:
  /// The first request reserves addresses for `most_bytes`. `memory` belongs to the device and must
  /// support mapping.
  GrowingRange(CudaMemory& memory, size_t most_bytes) noexcept;
  GrowingRange(const GrowingRange&) = delete;
  GrowingRange& operator=(const GrowingRange&) = delete;
  /// \pre all memory was returned
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
