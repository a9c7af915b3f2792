#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "reprise/device/caching_pool.h"
#include "reprise/device/cuda/driver.h"
#include "reprise/device/cuda/stream_list.h"
#include "reprise/device/cuda/virtual_memory.h"

namespace reprise::device::cuda {

/// Memory of one GPU, zeroed and aligned to 4096; works also while the calling thread captures. If
/// the GPU supports it and rounding up wastes little, a request gets mapped memory at addresses of
/// its own, so that the memory can be given back later. All other requests are plain allocations of
/// the driver. Thread-safe.
class CudaMemory final : public MemorySource {
 public:
  /// \throws DeviceError
  CudaMemory(const Driver& driver, const StreamList& streams);
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  ~CudaMemory() override;

  [[nodiscard]] BufferView acquire(size_t bytes) override;
  void give_back(BufferView memory) noexcept override;
  /// See ReservableMemory. \pre virtual_memory().is_supported()
  [[nodiscard]] BufferView reserve(size_t bytes);
  void commit(BufferView buffer, size_t offset, size_t bytes);
  /// See DiscardableMemory. Plain allocations keep their memory.
  void discard(BufferView memory) noexcept;
  void restore(BufferView memory);

  /// Maps zeroed memory at reserved addresses that have no memory, and counts it. \throws
  /// OutOfMemory, DeviceError
  void map(CUdeviceptr address, size_t bytes);
  /// Waits for the work of all streams before it takes the memory away.
  void unmap(CUdeviceptr address, size_t bytes) noexcept;
  [[nodiscard]] const VirtualMemory& virtual_memory() const noexcept { return virtual_; }

  /// Bytes of GPU memory in use. Discarded memory does not count; bytes that rounding up wastes do.
  [[nodiscard]] size_t allocated_bytes() const noexcept;
  /// The stream that zeroes new memory.
  [[nodiscard]] CUstream stream() const noexcept { return stream_; }

 private:
  /// Memory that one call mapped. The driver can unmap only such parts as a whole.
  struct Mapping {
    CUdeviceptr address = 0;
    size_t bytes = 0;
  };
  struct Allocation {
    CUdeviceptr base = 0;           // the address that the driver returned
    size_t bytes = 0;               // the size that the driver allocated or reserved
    bool is_virtual = false;        // reserved addresses
    bool is_mapped = true;          // false: its memory is discarded
    std::vector<Mapping> mappings;  // of reserved addresses
  };
  /// Owns the allocation from now on, also if this throws.
  [[nodiscard]] BufferView record(Allocation allocation, size_t bytes);
  [[nodiscard]] bool is_worth_mapping(size_t bytes) const noexcept;
  [[nodiscard]] Allocation allocate_plain(size_t bytes);
  [[nodiscard]] Allocation allocate_mapped(size_t bytes);
  void free(const Allocation& allocation) noexcept;
  /// Returns nullptr for a plain allocation or unknown memory. Only the thread that owns `memory`
  /// may change the result.
  [[nodiscard]] Allocation* find_mapping(BufferView memory) noexcept;
  void zero(CUdeviceptr base, size_t bytes);
  void count(ptrdiff_t bytes) noexcept;

  const Driver* driver_;       // owned by the device
  const StreamList* streams_;  // owned by the device
  size_t total_bytes_ = 0;     // of the GPU
  VirtualMemory virtual_;
  CUstream stream_ = nullptr;
  mutable std::mutex mutex_;
  std::unordered_map<const void*, Allocation> allocations_;
  size_t allocated_bytes_ = 0;
};

}  // namespace reprise::device::cuda
