#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/device/memory_pool.h"

namespace reprise::device {

/// For tests. Wraps a pool and overwrites every released block with 0xFF bytes (NaN in all float
/// formats), so that work that still reads the block gets NaNs. The overwriting is submitted to the
/// stream after the last use of the block. In a capture it is recorded, so every replay overwrites
/// the blocks too; if the capture is already invalid, nothing is overwritten. All blocks must be
/// released before the pool is destroyed, as with any pool.
class PoisoningPool final : public MemoryPool {
 public:
  /// `stream` is the stream that uses the pool's blocks; it must outlive the pool.
  PoisoningPool(std::unique_ptr<MemoryPool> inner, Stream& stream) noexcept
      : inner_(std::move(inner)), stream_(&stream) {}

  [[nodiscard]] PoolBlock* allocate(size_t bytes) override;
  void release(PoolBlock* block) noexcept override;
  [[nodiscard]] size_t reserved_bytes() const noexcept override { return inner_->reserved_bytes(); }
  [[nodiscard]] size_t live_bytes() const noexcept override { return inner_->live_bytes(); }
  [[nodiscard]] size_t peak_live_bytes() const noexcept override {
    return inner_->peak_live_bytes();
  }
  [[nodiscard]] std::vector<BufferView> ranges() const override { return inner_->ranges(); }
  [[nodiscard]] std::vector<BufferView> free_ranges() const override {
    return inner_->free_ranges();
  }

 private:
  std::unique_ptr<MemoryPool> inner_;
  Stream* stream_;  // owned by the caller
};

/// Overwrites all memory of the pool that is not in use now with 0xFF bytes.
void poison_free_ranges(const MemoryPool& pool, Stream& stream);

}  // namespace reprise::device
