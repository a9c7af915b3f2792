#include "reprise/device/poisoning_pool.h"

#include <exception>

namespace reprise::device {
namespace {

constexpr std::byte kPoison{0xFF};

}  // namespace

PoolBlock* PoisoningPool::allocate(size_t bytes) {
  PoolBlock* block = inner_->allocate(bytes);
  block->pool = this;
  return block;
}

void PoisoningPool::release(PoolBlock* block) noexcept {
  try {
    stream_->fill(block->data, kPoison, block->bytes);
  } catch (const std::exception&) {
    // If the call fails, the capture is invalid or the device is lost, so no result of this work
    // will be used.
  }
  block->pool = inner_.get();
  inner_->release(block);
}

void poison_free_ranges(const MemoryPool& pool, Stream& stream) {
  for (const BufferView& range : pool.free_ranges()) stream.fill(range.data, kPoison, range.bytes);
}

}  // namespace reprise::device
