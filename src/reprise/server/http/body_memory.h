#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace reprise::server {

/// The limit on the memory of all request bodies together. A body counts only the bytes that have
/// arrived: a client that announces a large body and sends nothing takes none. Thread-safe.
class BodyMemory {
 public:
  /// The first bytes of each body are not counted, so that large bodies cannot keep small ones out.
  /// The limit on connections bounds these bytes.
  static constexpr size_t kUncountedBytes = size_t{64} << 10;

  explicit BodyMemory(size_t max_bytes) : max_bytes_(max_bytes) {}

  /// The part of one body. The destructor gives the memory back, even after BodyMemory is gone.
  class Share {
   public:
    explicit Share(const BodyMemory& memory) : max_bytes_(memory.max_bytes_), used_(memory.used_) {}
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share() { used_->fetch_sub(num_bytes_); }

    /// Returns false, and changes nothing, when too little memory is left for a body of
    /// `body_bytes`.
    [[nodiscard]] bool grow_to(size_t body_bytes) {
      const size_t wanted = body_bytes > kUncountedBytes ? body_bytes - kUncountedBytes : 0;
      if (wanted <= num_bytes_) return true;
      const size_t more = wanted - num_bytes_;
      if (used_->fetch_add(more) + more > max_bytes_) {
        used_->fetch_sub(more);
        return false;
      }
      num_bytes_ = wanted;
      return true;
    }

   private:
    size_t max_bytes_;
    std::shared_ptr<std::atomic<size_t>> used_;
    size_t num_bytes_ = 0;
  };

  [[nodiscard]] size_t used_bytes() const noexcept { return used_->load(); }

 private:
  size_t max_bytes_;
  std::shared_ptr<std::atomic<size_t>> used_ = std::make_shared<std::atomic<size_t>>(0);
};

}  // namespace reprise::server
