#include "reprise/device/cuda/virtual_memory.h"

#include <fmt/format.h>

namespace reprise::device::cuda {

VirtualMemory::VirtualMemory(const Driver& driver) : driver_(&driver) {
  if (driver.attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) == 0) return;
  const CUmemAllocationProp memory = memory_of_this_gpu();
  driver.check(driver.bound().mem_get_allocation_granularity(
                   &granularity_, &memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
               "cuMemGetAllocationGranularity");
}

CUmemAllocationProp VirtualMemory::memory_of_this_gpu() const noexcept {
  CUmemAllocationProp memory{};
  memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memory.location.id = driver_->device();
  return memory;
}

CUdeviceptr VirtualMemory::reserve(size_t bytes) const {
  const DriverApi& api = driver_->bound();
  const RelaxedCaptureScope allowed(api);
  CUdeviceptr base = 0;
  driver_->check(api.mem_address_reserve(&base, bytes, 0, 0, 0),
                 fmt::format("cuMemAddressReserve of {} bytes", bytes).c_str());
  return base;
}

void VirtualMemory::give_up(CUdeviceptr base, size_t bytes) const noexcept {
  const DriverApi& api = driver_->bound_noexcept();
  const RelaxedCaptureScope allowed(api);
  (void)api.mem_address_free(base, bytes);
}

void VirtualMemory::map(CUdeviceptr address, size_t bytes) const {
  const DriverApi& api = driver_->bound();
  const RelaxedCaptureScope allowed(api);
  const CUmemAllocationProp memory = memory_of_this_gpu();
  CUmemGenericAllocationHandle handle = 0;
  driver_->check(api.mem_create(&handle, bytes, &memory, 0),
                 fmt::format("cuMemCreate of {} bytes", bytes).c_str());
  const CUresult mapped = api.mem_map(address, bytes, 0, handle, 0);
  // From here on only the mapping holds the memory; if mapping failed, the memory is freed.
  const CUresult released = api.mem_release(handle);
  driver_->check(mapped, "cuMemMap");
  const CUmemAccessDesc access{.location = memory.location,
                               .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  const CUresult accessible =
      released == CUDA_SUCCESS ? api.mem_set_access(address, bytes, &access, 1) : released;
  if (accessible == CUDA_SUCCESS) return;
  (void)api.mem_unmap(address, bytes);
  driver_->check(accessible, released == CUDA_SUCCESS ? "cuMemSetAccess" : "cuMemRelease");
}

void VirtualMemory::unmap(CUdeviceptr address, size_t bytes) const noexcept {
  const DriverApi& api = driver_->bound_noexcept();
  const RelaxedCaptureScope allowed(api);
  (void)api.mem_unmap(address, bytes);
}

}  // namespace reprise::device::cuda
