#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>

#include "reprise/device/caching_pool.h"
#include "reprise/device/cuda/driver.h"
#include "reprise/device/cuda/virtual_memory.h"

namespace reprise::device::cuda {

/// Memory of one GPU, zeroed and aligned to 4096, also while the calling thread captures. A request
/// is mapped behind addresses of its own, so that its memory can be given back, where the GPU can
/// do that and rounding up wastes little; all else is a plain allocation of the driver.
/// Thread-safe.
class CudaMemory final : public MemorySource {
 public:
  /// \throws DeviceError
  explicit CudaMemory(const Driver& driver);
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  ~CudaMemory() override;

  [[nodiscard]] BufferView acquire(size_t bytes) override;
  void give_back(BufferView memory) noexcept override;
  /// See DiscardableMemory. Plain allocations stay as they are.
  void discard(BufferView memory) noexcept;
  void restore(BufferView memory);

  /// Zeroed memory behind reserved addresses without, counted. \throws OutOfMemory, DeviceError
  void map(CUdeviceptr address, size_t bytes);
  void unmap(CUdeviceptr address, size_t bytes) noexcept;
  [[nodiscard]] const VirtualMemory& virtual_memory() const noexcept { return virtual_; }

  /// Of the GPU: what was discarded does not count, what rounding up takes does.
  [[nodiscard]] size_t allocated_bytes() const noexcept;
  /// What zeroes new memory.
  [[nodiscard]] CUstream stream() const noexcept { return stream_; }

 private:
  struct Allocation {
    CUdeviceptr base = 0;     // what the driver gave
    size_t bytes = 0;         // and how much
    bool is_virtual = false;  // reserved and mapped
    bool is_mapped = true;
  };
  [[nodiscard]] bool is_worth_mapping(size_t bytes) const noexcept;
  [[nodiscard]] Allocation allocate_plain(size_t bytes);
  [[nodiscard]] Allocation allocate_mapped(size_t bytes);
  void free(const Allocation& allocation) noexcept;
  /// nullptr: a plain allocation, or none. What it points at is the owner's of the memory to
  /// change.
  [[nodiscard]] Allocation* find_mapping(BufferView memory) noexcept;
  void zero(CUdeviceptr base, size_t bytes);
  void count(ptrdiff_t bytes) noexcept;

  const Driver* driver_;  // the device's
  VirtualMemory virtual_;
  CUstream stream_ = nullptr;
  mutable std::mutex mutex_;
  std::unordered_map<const void*, Allocation> allocations_;
  size_t allocated_bytes_ = 0;
};

}  // namespace reprise::device::cuda
