#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "reprise/kv_cache/transfer/kv_image.h"
#include "reprise/kv_cache/transfer/kv_transfer_counts.h"

namespace reprise::kv_cache {

/// The images that wait for their consumers, with a limit on their bytes and on the time that each
/// waits. An image that was accepted stays until it is removed or its time is over. If there is no
/// room, a new image is refused, so that images that were promised to consumers stay available.
/// Thread-safe.
class KvExports {
 public:
  using Clock = std::chrono::steady_clock;

  KvExports(size_t max_bytes, Clock::duration keep_time)
      : max_bytes_(max_bytes), keep_time_(keep_time) {}

  /// Whether there is room for an image of this many bytes; forgets images whose time is over.
  [[nodiscard]] bool has_room(size_t num_bytes);
  /// Returns false, and keeps nothing, when there is no room.
  [[nodiscard]] bool add(const std::string& id, std::shared_ptr<const KvImage> image);
  /// nullptr: the image was removed, its time is over, or it never existed.
  [[nodiscard]] std::shared_ptr<const KvImage> find(const std::string& id);
  void remove(const std::string& id);
  /// Counts an image that could not be made.
  void count_refused();

  [[nodiscard]] KvExportCounts counts() const;

 private:
  struct Entry {
    std::shared_ptr<const KvImage> image;
    Clock::time_point expires;
  };

  void forget_expired();

  const size_t max_bytes_;
  const Clock::duration keep_time_;
  mutable std::mutex mutex_;  // guards everything below
  std::unordered_map<std::string, Entry> entries_;
  KvExportCounts counts_;
};

}  // namespace reprise::kv_cache
