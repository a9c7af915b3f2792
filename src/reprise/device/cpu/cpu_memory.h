#pragma once

#include <atomic>
#include <cstddef>

#include "reprise/device/caching_pool.h"
#include "reprise/device/device.h"

namespace reprise::device {

/// Pages from the operating system, filled with zeros. Counts the bytes. Thread-safe.
class CpuMemory final : public MemorySource {
 public:
  /// Returns page-aligned memory. Large requests are aligned to huge pages, and use huge pages if
  /// the system has them.
  /// \throws OutOfMemory also if the request exceeds the memory of the machine: Linux would grant
  /// it, and kill the process later
  [[nodiscard]] BufferView acquire(size_t bytes) override;
  void give_back(BufferView memory) noexcept override;
  /// Asks the system to take the pages of this range from a NUMA node when they are first used.
  /// Whole pages only. \returns false if the system refuses, which costs only speed
  static bool prefer_node(void* data, size_t bytes, int node) noexcept;
  /// See DiscardableMemory.
  void discard(BufferView memory) noexcept;

  [[nodiscard]] MemoryInfo info() const;

 private:
  std::atomic<size_t> allocated_bytes_{0};
};

}  // namespace reprise::device
