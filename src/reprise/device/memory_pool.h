#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "reprise/device/kernel.h"

namespace reprise::device {

class MemoryPool;

/// One allocation of a pool, with a reference count. The pool owns the PoolBlock objects and reuses
/// them, so that allocations after warm-up need no host memory.
struct PoolBlock {
  void* data = nullptr;
  size_t bytes = 0;  // at least the requested bytes: rounded up to a size class
  MemoryPool* pool = nullptr;
  std::atomic<uint32_t> references{0};
};

/// Memory for results and intermediate values, reused in stream order. If one launch was the last
/// to use a block, the next launch on the same stream may use its memory at once, because the
/// stream runs launches in order. For the same reason, graphs that never run at the same time can
/// share a pool.
///
/// Not thread-safe: a pool belongs to the thread that launches on its stream. The addresses of its
/// blocks stay valid until the pool is destroyed. During a capture, a pool may get more memory from
/// the device, but Device::allocate() is forbidden.
class MemoryPool {
 public:
  virtual ~MemoryPool() = default;
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// Returns a block of at least `bytes` bytes (may be 0), aligned to 256. \throws OutOfMemory
  [[nodiscard]] virtual PoolBlock* allocate(size_t bytes) = 0;

  /// Takes a block back. Called when its last reference is dropped.
  virtual void release(PoolBlock* block) noexcept = 0;

  /// Bytes that the pool got from the device, whether in use or free.
  [[nodiscard]] virtual size_t reserved_bytes() const noexcept = 0;
  /// Bytes in blocks that are in use now, and the largest value so far.
  [[nodiscard]] virtual size_t live_bytes() const noexcept = 0;
  [[nodiscard]] virtual size_t peak_live_bytes() const noexcept = 0;
  /// The reserved memory, whether in use or free. Allocates host memory.
  [[nodiscard]] virtual std::vector<BufferView> ranges() const = 0;
  /// The reserved memory that is not in use now, in a fixed order. For reports about fragmentation,
  /// and for tests that overwrite it between steps to show that no result depends on it. Allocates
  /// host memory.
  [[nodiscard]] virtual std::vector<BufferView> free_ranges() const = 0;

 protected:
  MemoryPool() = default;
};

/// Shared ownership of a PoolBlock.
class PoolReference {
 public:
  PoolReference() = default;
  /// Takes the first reference to a block that MemoryPool::allocate() returned.
  explicit PoolReference(PoolBlock* block) noexcept : block_(block) { retain(); }
  PoolReference(const PoolReference& other) noexcept : block_(other.block_) { retain(); }
  PoolReference(PoolReference&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  PoolReference& operator=(PoolReference other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~PoolReference() {
    if (block_ != nullptr && block_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      block_->pool->release(block_);
    }
  }

  [[nodiscard]] const PoolBlock* get() const noexcept { return block_; }
  explicit operator bool() const noexcept { return block_ != nullptr; }

 private:
  void retain() noexcept {
    if (block_ != nullptr) block_->references.fetch_add(1, std::memory_order_relaxed);
  }

  PoolBlock* block_ = nullptr;
};

}  // namespace reprise::device
