#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>

#include "reprise/device/caching_pool.h"
#include "reprise/device/cuda/driver.h"
#include "reprise/device/cuda/virtual_memory.h"

namespace reprise::device::cuda {

/// Memory of one GPU, zeroed and aligned to 4096 bytes; may be allocated while the calling thread
/// captures. If the GPU supports virtual memory and rounding up wastes little, a request gets its
/// own address range with mapped memory, so that the memory can be released. Other requests are
/// plain allocations of the driver. Thread-safe.
class CudaMemory final : public MemorySource {
 public:
  /// \throws DeviceError
  explicit CudaMemory(const Driver& driver);
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  ~CudaMemory() override;

  [[nodiscard]] BufferView acquire(size_t bytes) override;
  void give_back(BufferView memory) noexcept override;
  /// See DiscardableMemory. Plain allocations are not discarded.
  void discard(BufferView memory) noexcept;
  void restore(BufferView memory);

  /// Maps zeroed memory to reserved addresses and counts it. \throws OutOfMemory, DeviceError
  void map(CUdeviceptr address, size_t bytes);
  void unmap(CUdeviceptr address, size_t bytes) noexcept;
  [[nodiscard]] const VirtualMemory& virtual_memory() const noexcept { return virtual_; }

  /// Bytes in use on the GPU: without discarded memory, with the padding of rounding up.
  [[nodiscard]] size_t allocated_bytes() const noexcept;
  /// The stream that zeroes new memory.
  [[nodiscard]] CUstream stream() const noexcept { return stream_; }

 private:
  struct Allocation {
    CUdeviceptr base = 0;     // the driver's address
    size_t bytes = 0;         // the driver's size
    bool is_virtual = false;  // reserved and mapped, not a plain allocation
    bool is_mapped = true;
  };
  [[nodiscard]] bool is_worth_mapping(size_t bytes) const noexcept;
  [[nodiscard]] Allocation allocate_plain(size_t bytes);
  [[nodiscard]] Allocation allocate_mapped(size_t bytes);
  void free(const Allocation& allocation) noexcept;
  /// nullptr: a plain allocation, or no allocation. Only the owner of the memory may change
  /// the allocation.
  [[nodiscard]] Allocation* find_mapping(BufferView memory) noexcept;
  void zero(CUdeviceptr base, size_t bytes);
  void count(ptrdiff_t bytes) noexcept;

  const Driver* driver_;  // owned by the device
  VirtualMemory virtual_;
  CUstream stream_ = nullptr;
  mutable std::mutex mutex_;
  std::unordered_map<const void*, Allocation> allocations_;
  size_t allocated_bytes_ = 0;
};

}  // namespace reprise::device::cuda
