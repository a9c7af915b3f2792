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

/// The images that wait for their consumers, within a number of bytes and a time. An image that was
/// taken in stays until it is removed or its time is over; when there is no room, the new one is
/// refused, so that what a consumer was promised is there. Thread-safe.
class KvExports {
 public:
  using Clock = std::chrono::steady_clock;

  KvExports(size_t max_bytes, Clock::duration keep_time)
      : max_bytes_(max_bytes), keep_time_(keep_time) {}

  /// Whether there is room for an image of so many bytes; forgets images whose time is over.
  [[nodiscard]] bool has_room(size_t num_bytes);
  /// Returns false, and keeps nothing, when there is no room.
  [[nodiscard]] bool add(const std::string& id, std::shared_ptr<const KvImage> image);
  /// nullptr: it was removed, its time is over, or it never was here.
  [[nodiscard]] std::shared_ptr<const KvImage> find(const std::string& id);
  void remove(const std::string& id);
  /// An image that could not be made.
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
