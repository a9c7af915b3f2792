#include "reprise/device/cuda/growing_range.h"

#include <fmt/format.h>

#include "reprise/base/error.h"

namespace reprise::device::cuda {

GrowingRange::GrowingRange(CudaMemory& memory, size_t most_bytes) noexcept
    : memory_(&memory), reserved_bytes_(memory.virtual_memory().round_up(most_bytes)) {}

GrowingRange::~GrowingRange() {
  if (base_ != 0) memory_->virtual_memory().give_up(base_, reserved_bytes_);
}

BufferView GrowingRange::acquire(size_t bytes) {
  const size_t free_bytes = reserved_bytes_ - mapped_bytes_;
  if (bytes > free_bytes) {
    throw OutOfMemory(
        fmt::format("a pool of at most {} bytes (the GPU's memory) holds {}; {} more do not fit",
                    reserved_bytes_,
                    mapped_bytes_,
                    bytes));
  }
  if (base_ == 0) base_ = memory_->virtual_memory().reserve(reserved_bytes_);
  const size_t rounded = memory_->virtual_memory().round_up(bytes);
  const CUdeviceptr address = base_ + mapped_bytes_;
  memory_->map(address, rounded);
  mapped_bytes_ += rounded;
  return {reinterpret_cast<void*>(address), rounded};
}

void GrowingRange::give_back(BufferView memory) noexcept {
  memory_->unmap(reinterpret_cast<CUdeviceptr>(memory.data), memory.bytes);
}

}  // namespace reprise::device::cuda
