#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>

#include "reprise/device/caching_pool.h"
#include "reprise/device/cuda/driver.h"

namespace reprise::device::cuda {

/// Plain allocations of the driver, zeroed and aligned to 4096, also while the calling thread
/// captures: a graph pool may grow. Thread-safe.
class CudaMemory final : public MemorySource {
 public:
  explicit CudaMemory(const Driver& driver);
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  ~CudaMemory() override;

  [[nodiscard]] BufferView acquire(size_t bytes) override;
  void give_back(BufferView memory) noexcept override;
  [[nodiscard]] size_t allocated_bytes() const noexcept;
  /// What zeroes new memory.
  [[nodiscard]] CUstream stream() const noexcept { return stream_; }

 private:
  struct Allocation {
    CUdeviceptr base = 0;  // what the driver gave
    size_t bytes = 0;      // and how much
  };
  void zero(CUdeviceptr base, size_t bytes);

  const Driver* driver_;  // the device's
  CUstream stream_ = nullptr;
  mutable std::mutex mutex_;
  std::unordered_map<const void*, Allocation> allocations_;
  size_t allocated_bytes_ = 0;
};

}  // namespace reprise::device::cuda
