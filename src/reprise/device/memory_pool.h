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
/// recycles it, so the steady state makes no host allocations.
struct PoolBlock {
  void* data = nullptr;
  size_t bytes = 0;  // size class, at least the requested bytes
  MemoryPool* pool = nullptr;
  std::atomic<uint32_t> references{0};
};

/// Memory for activations and graph intermediates: stream-ordered reuse of device memory. A block
/// that one launch released may be used by the next launch on the same stream at once, because the
/// stream runs launches in order. This lets graphs that never run concurrently share one pool.
///
/// Not thread-safe: a pool belongs to the thread that launches on its stream. The addresses of its
/// blocks stay valid until the pool is destroyed. A pool may grow during a capture;
/// Device::allocate is forbidden there.
class MemoryPool {
 public:
  virtual ~MemoryPool() = default;
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// At least `bytes` bytes (0 is allowed), aligned to 256. \throws OutOfMemory
  [[nodiscard]] virtual PoolBlock* allocate(size_t bytes) = 0;

  /// Takes a block back; called when the last reference to it is dropped.
  virtual void release(PoolBlock* block) noexcept = 0;

  /// Bytes taken from the device, both in use and cached.
  [[nodiscard]] virtual size_t reserved_bytes() const noexcept = 0;
  /// Bytes in blocks that are referenced now, and the largest value so far.
  [[nodiscard]] virtual size_t live_bytes() const noexcept = 0;
  [[nodiscard]] virtual size_t peak_live_bytes() const noexcept = 0;
  /// The reserved memory that is not referenced now, in a fixed order. For fragmentation reports,
  /// and for tests that overwrite it between steps, because no result may depend on it; allocates
  /// on the host.
  [[nodiscard]] virtual std::vector<BufferView> free_ranges() const = 0;

 protected:
  MemoryPool() = default;
};

/// Shared ownership of a PoolBlock.
class PoolReference {
 public:
  PoolReference() = default;
  /// Takes the first reference to a new block from MemoryPool::allocate.
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
