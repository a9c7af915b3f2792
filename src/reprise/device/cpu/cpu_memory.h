#pragma once

#include <atomic>
#include <cstddef>

#include "reprise/device/caching_pool.h"
#include "reprise/device/device.h"

namespace reprise::device {

/// Zero-filled pages from the operating system, counted. Thread-safe.
class CpuMemory final : public MemorySource {
 public:
  /// Page-aligned; large requests are aligned to and backed by huge pages where the system has
  /// them.
  /// \throws OutOfMemory also when the request exceeds the memory of the machine: Linux would grant
  /// it and kill the process later.
  [[nodiscard]] BufferView acquire(size_t bytes) override;
  void give_back(BufferView memory) noexcept override;
  /// See DiscardableMemory.
  void discard(BufferView memory) noexcept;

  [[nodiscard]] MemoryInfo info() const;

 private:
  std::atomic<size_t> allocated_bytes_{0};
};

}  // namespace reprise::device
