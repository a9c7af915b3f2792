#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

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
  /// Whether reserving addresses without memory costs nothing: a limit RLIMIT_AS counts such
  /// addresses.
  [[nodiscard]] static bool can_reserve() noexcept;
  /// See ReservableMemory.
  [[nodiscard]] static size_t granularity() noexcept;
  [[nodiscard]] BufferView reserve(size_t bytes);
  void commit(BufferView buffer, size_t offset, size_t bytes);
  /// Asks the system to take the pages of this range from a NUMA node when they are first used.
  /// Whole pages only. \returns false if the system refuses, which costs only speed
  static bool prefer_node(void* data, size_t bytes, int node) noexcept;
  /// See DiscardableMemory.
  void discard(BufferView memory) noexcept;

  /// Under memory limits (memory_limits.h), what the tightest limit leaves. Takes milliseconds per
  /// 10 GB of allocated memory, because the system is asked which pages exist.
  [[nodiscard]] MemoryInfo info() const;

 private:
  /// Whole pages that may be touched.
  struct Part {
    std::byte* data = nullptr;
    size_t bytes = 0;
  };
  /// A mapping of the system.
  struct Mapping {
    size_t bytes = 0;
    std::vector<Part> parts;  // that have memory
  };

  void record(std::byte* data, Mapping mapping);
  [[nodiscard]] size_t allocated_bytes() const;
  /// Bytes of the parts for which the system has not had to provide memory yet.
  [[nodiscard]] size_t untouched_bytes() const;

  mutable std::mutex mutex_;
  std::map<std::byte*, Mapping> mappings_;  // by address
};

}  // namespace reprise::device
