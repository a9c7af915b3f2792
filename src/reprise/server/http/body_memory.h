#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace reprise::server {

/// The memory that the bodies of all requests may take together. Thread-safe.
class BodyMemory {
 public:
  explicit BodyMemory(size_t max_bytes) : max_bytes_(max_bytes) {}

  /// Reserves a share, or returns null when less than `num_bytes` is left. The share is returned
  /// when its last copy is destroyed, even after this object is gone. Only one thread at a time may
  /// call share().
  [[nodiscard]] std::shared_ptr<void> share(size_t num_bytes) {
    if (used_->load() + num_bytes > max_bytes_) return nullptr;
    used_->fetch_add(num_bytes);
    const auto give_back = [used = used_, num_bytes](void*) { used->fetch_sub(num_bytes); };
    return {used_.get(), give_back};
  }

 private:
  size_t max_bytes_;
  std::shared_ptr<std::atomic<size_t>> used_ = std::make_shared<std::atomic<size_t>>(0);
};

}  // namespace reprise::server
