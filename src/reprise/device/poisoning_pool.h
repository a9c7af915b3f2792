#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/device/memory_pool.h"

namespace reprise::device {

/// Wraps a pool and overwrites every block that comes back with 0xFF bytes (NaN in all float
/// formats), in stream order behind its last use. Whoever reads released memory then reads NaNs.
/// While the stream captures, the overwriting is recorded too, so every replay poisons as well; a
/// capture that is invalid already is not poisoned. For tests; blocks keep this wrapper alive in
/// the same way as any pool: they must go before it.
class PoisoningPool final : public MemoryPool {
 public:
  /// `stream` is the one that the pool's blocks are used on; it must outlive the pool.
  PoisoningPool(std::unique_ptr<MemoryPool> inner, Stream& stream) noexcept
      : inner_(std::move(inner)), stream_(&stream) {}

  [[nodiscard]] PoolBlock* allocate(size_t bytes) override;
  void release(PoolBlock* block) noexcept override;
  [[nodiscard]] size_t reserved_bytes() const noexcept override { return inner_->reserved_bytes(); }
  [[nodiscard]] size_t live_bytes() const noexcept override { return inner_->live_bytes(); }
  [[nodiscard]] size_t peak_live_bytes() const noexcept override {
    return inner_->peak_live_bytes();
  }
  [[nodiscard]] std::vector<BufferView> free_ranges() const override {
    return inner_->free_ranges();
  }

 private:
  std::unique_ptr<MemoryPool> inner_;
  Stream* stream_;  // the caller's
};

/// Overwrites everything in the pool that nobody references now.
void poison_free_ranges(const MemoryPool& pool, Stream& stream);

}  // namespace reprise::device
