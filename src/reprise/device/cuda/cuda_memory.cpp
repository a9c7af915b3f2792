#include "reprise/device/cuda/cuda_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"

namespace reprise::device::cuda {
namespace {

// The alignment that the contract demands; the driver aligns plain allocations only to 256.
constexpr size_t kAlignment = 4096;
// Rounding up may waste at most 1/8 of a request. A GPU maps 2 MiB at a time: without this limit,
// the small tensors of a model with many layers would waste more memory than is free.
constexpr size_t kLargestWaste = 8;

}  // namespace

CudaMemory::CudaMemory(const Driver& driver, const StreamList& streams)
    : driver_(&driver), streams_(&streams), virtual_(driver) {
  driver_->check(driver_->bound().device_total_mem(&total_bytes_, driver_->device()),
                 "cuDeviceTotalMem");
  driver_->check(driver_->bound().stream_create(&stream_, CU_STREAM_NON_BLOCKING),
                 "cuStreamCreate");
}

CudaMemory::~CudaMemory() { (void)driver_->bound_noexcept().stream_destroy(stream_); }

BufferView CudaMemory::acquire(size_t bytes) {
  // The driver has other errors for sizes that cannot be addresses.
  if (bytes > total_bytes_) {
    throw OutOfMemory(fmt::format(
        "{}: {} bytes are more than the GPU's {}", driver_->name(), bytes, total_bytes_));
  }
  return record(is_worth_mapping(bytes) ? allocate_mapped(bytes) : allocate_plain(bytes), bytes);
}

BufferView CudaMemory::record(Allocation allocation, size_t bytes) {
  try {
    void* data =
        reinterpret_cast<void*>((allocation.base + kAlignment - 1) / kAlignment * kAlignment);
    const std::lock_guard lock(mutex_);
    allocations_.emplace(data, allocation);
    return {data, bytes};
  } catch (...) {
    free(allocation);
    throw;
  }
}

BufferView CudaMemory::reserve(size_t bytes) {
  Allocation allocation{.bytes = virtual_.round_up(bytes), .is_virtual = true};
  allocation.base = virtual_.reserve(allocation.bytes);
  return record(std::move(allocation), bytes);
}

void CudaMemory::commit(BufferView buffer, size_t offset, size_t bytes) {
  Allocation* allocation = find_mapping(buffer);
  REPRISE_ASSERT(
      allocation != nullptr && allocation->is_mapped && offset + bytes <= allocation->bytes,
      "cuda: commit of {} bytes at offset {} of a buffer of {} bytes, which is too small or was "
      "not reserved",
      bytes,
      offset,
      buffer.bytes);
  allocation->mappings.reserve(allocation->mappings.size() + 1);
  map(allocation->base + offset, bytes);
  allocation->mappings.push_back({.address = allocation->base + offset, .bytes = bytes});
}

bool CudaMemory::is_worth_mapping(size_t bytes) const noexcept {
  return virtual_.is_supported() && bytes > 0 &&
         virtual_.round_up(bytes) - bytes <= bytes / kLargestWaste;
}

CudaMemory::Allocation CudaMemory::allocate_mapped(size_t bytes) {
  Allocation allocation{.bytes = virtual_.round_up(bytes), .is_virtual = true};
  allocation.base = virtual_.reserve(allocation.bytes);
  try {
    allocation.mappings.push_back({.address = allocation.base, .bytes = allocation.bytes});
    map(allocation.base, allocation.bytes);
  } catch (...) {
    virtual_.give_up(allocation.base, allocation.bytes);
    throw;
  }
  return allocation;
}

CudaMemory::Allocation CudaMemory::allocate_plain(size_t bytes) {
  const DriverApi& api = driver_->bound();
  const RelaxedCaptureScope allowed(api);
  Allocation allocation{.bytes = std::max<size_t>(bytes, 1) + kAlignment - 1};
  driver_->check(api.mem_alloc(&allocation.base, allocation.bytes),
                 fmt::format("cuMemAlloc of {} bytes", allocation.bytes).c_str());
  try {
    zero(allocation.base, allocation.bytes);
  } catch (...) {
    (void)api.mem_free(allocation.base);
    throw;
  }
  count(static_cast<ptrdiff_t>(allocation.bytes));
  return allocation;
}

void CudaMemory::free(const Allocation& allocation) noexcept {
  if (allocation.is_virtual) {
    if (allocation.is_mapped) {
      for (const Mapping& mapping : allocation.mappings) unmap(mapping.address, mapping.bytes);
    }
    virtual_.give_up(allocation.base, allocation.bytes);
    return;
  }
  const DriverApi& api = driver_->bound_noexcept();
  const RelaxedCaptureScope allowed(api);
  (void)api.mem_free(allocation.base);
  count(-static_cast<ptrdiff_t>(allocation.bytes));
}

void CudaMemory::zero(CUdeviceptr base, size_t bytes) {
  const DriverApi& api = driver_->bound();
  const RelaxedCaptureScope allowed(api);
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
    allocations_.erase(found);
  }
  free(allocation);
}

CudaMemory::Allocation* CudaMemory::find_mapping(BufferView memory) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(memory.data);
  return found != allocations_.end() && found->second.is_virtual ? &found->second : nullptr;
}

void CudaMemory::discard(BufferView memory) noexcept {
  Allocation* allocation = find_mapping(memory);
  if (allocation == nullptr || !std::exchange(allocation->is_mapped, false)) return;
  for (const Mapping& mapping : allocation->mappings) unmap(mapping.address, mapping.bytes);
}

void CudaMemory::restore(BufferView memory) {
  Allocation* allocation = find_mapping(memory);
  if (allocation == nullptr || allocation->is_mapped) return;
  size_t num_mapped = 0;
  try {
    for (const Mapping& mapping : allocation->mappings) {
      map(mapping.address, mapping.bytes);
      ++num_mapped;
    }
  } catch (...) {
    for (size_t i = 0; i < num_mapped; ++i) {
      unmap(allocation->mappings[i].address, allocation->mappings[i].bytes);
    }
    throw;
  }
  allocation->is_mapped = true;
}

void CudaMemory::map(CUdeviceptr address, size_t bytes) {
  virtual_.map(address, bytes);
  try {
    zero(address, bytes);
  } catch (...) {
    virtual_.unmap(address, bytes);
    throw;
  }
  count(static_cast<ptrdiff_t>(bytes));
}

void CudaMemory::unmap(CUdeviceptr address, size_t bytes) noexcept {
  streams_->synchronize();
  virtual_.unmap(address, bytes);
  count(-static_cast<ptrdiff_t>(bytes));
}

void CudaMemory::count(ptrdiff_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  allocated_bytes_ += static_cast<size_t>(bytes);
}

size_t CudaMemory::allocated_bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  return allocated_bytes_;
}

}  // namespace reprise::device::cuda
