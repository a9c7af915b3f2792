#include "reprise/device/cuda/cuda_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace reprise::device::cuda {
namespace {

constexpr size_t kAlignment = 4096;  // the contract's; the driver promises 256

}  // namespace

CudaMemory::CudaMemory(const Driver& driver) : driver_(&driver) {
  driver_->check(driver_->bound().stream_create(&stream_, CU_STREAM_NON_BLOCKING),
                 "cuStreamCreate");
}

CudaMemory::~CudaMemory() { (void)driver_->bound_noexcept().stream_destroy(stream_); }

BufferView CudaMemory::acquire(size_t bytes) {
  const DriverApi& api = driver_->bound();
  const RelaxedCaptureScope allowed(api);
  if (bytes > std::numeric_limits<size_t>::max() - kAlignment) {
    throw OutOfMemory(fmt::format("{}: {} bytes are more than any GPU has", driver_->name(), bytes));
  }
  const size_t asked = std::max<size_t>(bytes, 1) + kAlignment - 1;
  CUdeviceptr base = 0;
  driver_->check(api.mem_alloc(&base, asked), fmt::format("cuMemAlloc of {} bytes", asked).c_str());
  try {
    zero(base, asked);
    void* data = reinterpret_cast<void*>((base + kAlignment - 1) / kAlignment * kAlignment);
    const std::lock_guard lock(mutex_);
    allocations_.emplace(data, Allocation{base, asked});
    allocated_bytes_ += asked;
    return {data, bytes};
  } catch (...) {
    (void)api.mem_free(base);
    throw;
  }
}

void CudaMemory::zero(CUdeviceptr base, size_t bytes) {
  const DriverApi& api = driver_->bound();
  driver_->check(api.memset_d8_async(base, 0, bytes, stream_), "cuMemsetD8Async");
  driver_->check(api.stream_synchronize(stream_), "cuStreamSynchronize");
}

void CudaMemory::give_back(BufferView memory) noexcept {
  Allocation allocation;
  {
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(memory.data);
    if (found == allocations_.end()) return;
    allocation = found->second;
    allocated_bytes_ -= allocation.bytes;
    allocations_.erase(found);
  }
  const DriverApi& api = driver_->bound_noexcept();
  const RelaxedCaptureScope allowed(api);
  (void)api.mem_free(allocation.base);
}

size_t CudaMemory::allocated_bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  return allocated_bytes_;
}

}  // namespace reprise::device::cuda
