#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "reprise/device/kernel.h"

namespace reprise::device {

class MemoryPool;

/// One live allocation of a pool with an intrusive reference count. The pool owns the object and
/// recycles it, so that a steady state allocates nothing on the host either.
struct PoolBlock {
  void* data = nullptr;
  size_t bytes = 0;  // size class, at least what was asked for
  MemoryPool* pool = nullptr;
  std::atomic<uint32_t> references{0};
};

/// Memory for activations and graph intermediates: stream-ordered reuse of device memory. A block
/// released by one launch may be handed to the next launch on the same stream at once, because the
/// stream runs them in order; this is what lets graphs that never run concurrently share one pool.
///
/// Not thread-safe: a pool belongs to the thread that launches on its stream. Addresses handed out
/// stay valid until the pool is destroyed. Growing a pool is allowed during capture (it is "the
/// pool"); Device::allocate is not.
class MemoryPool {
 public:
  virtual ~MemoryPool() = default;
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// At least `bytes` bytes (0 is allowed), aligned to 256. \throws OutOfMemory
  [[nodiscard]] virtual PoolBlock* allocate(size_t bytes) = 0;

  /// Gives a block back; called when its last reference goes.
  virtual void release(PoolBlock* block) noexcept = 0;

  /// Bytes taken from the device, in use or cached.
  [[nodiscard]] virtual size_t reserved_bytes() const noexcept = 0;
  /// Bytes in blocks that are referenced now, and the most there ever were.
  [[nodiscard]] virtual size_t live_bytes() const noexcept = 0;
  [[nodiscard]] virtual size_t peak_live_bytes() const noexcept = 0;
  /// What is reserved and not referenced now, in a fixed order. For tests that overwrite it between
  /// steps (nothing may depend on it) and for fragmentation reports; allocates on the host.
  [[nodiscard]] virtual std::vector<BufferView> free_ranges() const = 0;

 protected:
  MemoryPool() = default;
};

/// Shared ownership of a PoolBlock.
class PoolReference {
 public:
  PoolReference() = default;
  /// Takes the first reference of a block fresh from MemoryPool::allocate.
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
