#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "tests/support/fake_cuda/fake_driver_state_fixture.h"

// Physical memory is an unnamed file, and mapping this memory maps the file. As on a GPU, an access
// to an address without memory or without permission causes a fault.
namespace reprise::device::cuda::fake_driver {
namespace {

// A multiple of the file's page size, and small enough that the engines of tests have several
// granules.
constexpr size_t kGranularity = size_t{16} << 10;

CUresult invalid(std::string text) {
  return fake->misuse(std::move(text), CUDA_ERROR_INVALID_VALUE);
}

bool is_multiple(size_t bytes) { return bytes > 0 && bytes % kGranularity == 0; }

bool is_memory_of_the_gpu(const CUmemAllocationProp& memory) {
  return memory.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         memory.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         memory.location.id == fake->gpu_of_thread();
}

/// The mappings that together fill the range exactly; empty if there are none.
std::vector<Mapping*> mappings_of(CUdeviceptr address, size_t bytes) {
  std::vector<Mapping*> found;
  const CUdeviceptr end = address + bytes;
  while (address < end) {
    const auto next = fake->mappings.find(address);
    if (next == fake->mappings.end() || address + next->second.bytes > end) return {};
    found.push_back(&next->second);
    address += next->second.bytes;
  }
  return found;
}

bool is_within_a_reservation(CUdeviceptr address, size_t bytes) {
  auto next = fake->reservations.upper_bound(address);
  if (next == fake->reservations.begin()) return false;
  --next;
  return address + bytes <= next->first + next->second.bytes;
}

bool has_mapping(CUdeviceptr address, size_t bytes) {
  auto next = fake->mappings.lower_bound(address);
  if (next != fake->mappings.end() && next->first < address + bytes) return true;
  if (next == fake->mappings.begin()) return false;
  --next;
  return next->first + next->second.bytes > address;
}

}  // namespace

CUresult mem_get_allocation_granularity(size_t* granularity,
                                        const CUmemAllocationProp* memory,
                                        CUmemAllocationGranularity_flags) {
  REPRISE_FAKE_ENTER("cuMemGetAllocationGranularity");
  if (!is_memory_of_the_gpu(*memory)) return invalid("the granularity of foreign memory");
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

CUresult mem_address_reserve(
    CUdeviceptr* base, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long) {
  REPRISE_FAKE_ENTER("cuMemAddressReserve");
  if (const CUresult result = fake->enter_unsafe(); result != CUDA_SUCCESS) return result;
  if (!is_multiple(bytes) || alignment != 0 || hint != 0) {
    return invalid("cuMemAddressReserve of what is not a multiple of the granularity");
  }
  if (bytes > size_t{1} << 47) return CUDA_ERROR_INVALID_VALUE;  // more than the GPU has addresses
  const size_t mapped = bytes + kGranularity;                    // to cut an aligned range out of
  void* data = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *base = (reinterpret_cast<CUdeviceptr>(data) + kGranularity - 1) / kGranularity * kGranularity;
  fake->reservations[*base] = {.bytes = bytes, .pages = HostPages(data, {.bytes = mapped})};
  return CUDA_SUCCESS;
}

CUresult mem_address_free(CUdeviceptr base, size_t bytes) {
  REPRISE_FAKE_RELEASE("cuMemAddressFree");
  if (const CUresult unsafe = fake->enter_unsafe(); unsafe != CUDA_SUCCESS) return unsafe;
  const auto found = fake->reservations.find(base);
  if (found == fake->reservations.end() || found->second.bytes != bytes) {
    return invalid("cuMemAddressFree of what was not reserved");
  }
  if (has_mapping(base, bytes)) return invalid("cuMemAddressFree of mapped addresses");
  // Queued work that still uses the addresses must fault instead of finding other memory there.
  if (!fake->queues.empty()) fake->released_reservations.push_back(std::move(found->second));
  fake->reservations.erase(found);
  return result;
}

CUresult mem_create(CUmemGenericAllocationHandle* handle,
                    size_t bytes,
                    const CUmemAllocationProp* memory,
                    unsigned long long) {
  REPRISE_FAKE_ENTER("cuMemCreate");
  if (const CUresult result = fake->enter_unsafe(); result != CUDA_SUCCESS) return result;
  if (!is_multiple(bytes) || !is_memory_of_the_gpu(*memory)) {
    return invalid("cuMemCreate of what is not a multiple of the granularity, or elsewhere");
  }
  if (bytes > fake->free_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
  PhysicalHandle made{.file = memfd_create("fake GPU memory", MFD_CLOEXEC)};
  if (made.file < 0 || ftruncate(made.file, static_cast<off_t>(bytes)) != 0) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // New memory has undefined content, like memory that another process used before. In large
  // memory, which is mostly workspaces, only the beginning is filled.
  const size_t filled = std::min(bytes, size_t{1} << 20);
  void* data = mmap(nullptr, filled, PROT_READ | PROT_WRITE, MAP_SHARED, made.file, 0);
  std::memset(data, 0xFF, filled);
  munmap(data, filled);
  fake->allocated_bytes += bytes;
  made.memory = std::make_shared<PhysicalMemory>(bytes, &fake->allocated_bytes);
  *handle = ++fake->last_physical;
  fake->physical.emplace(*handle, std::move(made));
  return CUDA_SUCCESS;
}

CUresult mem_release(CUmemGenericAllocationHandle handle) {
  REPRISE_FAKE_RELEASE("cuMemRelease");
  if (const CUresult unsafe = fake->enter_unsafe(); unsafe != CUDA_SUCCESS) return unsafe;
  const auto found = fake->physical.find(handle);
  if (found == fake->physical.end()) return fake->misuse("cuMemRelease of no memory");
  close(found->second.file);
  fake->physical.erase(found);
  return result;
}

CUresult mem_map(CUdeviceptr address,
                 size_t bytes,
                 size_t offset,
                 CUmemGenericAllocationHandle handle,
                 unsigned long long) {
  REPRISE_FAKE_ENTER("cuMemMap");
  if (const CUresult result = fake->enter_unsafe(); result != CUDA_SUCCESS) return result;
  const auto found = fake->physical.find(handle);
  if (found == fake->physical.end()) return fake->misuse("cuMemMap of no memory");
  if (offset != 0 || bytes != found->second.memory->bytes || address % kGranularity != 0) {
    return invalid("cuMemMap of a part of memory, or at an address between granules");
  }
  if (!is_within_a_reservation(address, bytes)) return invalid("cuMemMap at foreign addresses");
  if (has_mapping(address, bytes)) return invalid("cuMemMap at addresses that have memory");
  mmap(reinterpret_cast<void*>(address),
       bytes,
       PROT_NONE,
       MAP_SHARED | MAP_FIXED,
       found->second.file,
       0);
  fake->mappings[address] = {.bytes = bytes, .memory = found->second.memory};
  return CUDA_SUCCESS;
}

CUresult mem_unmap(CUdeviceptr address, size_t bytes) {
  REPRISE_FAKE_RELEASE("cuMemUnmap");
  if (const CUresult unsafe = fake->enter_unsafe(); unsafe != CUDA_SUCCESS) return unsafe;
  if (mappings_of(address, bytes).empty()) {
    return invalid("cuMemUnmap of anything but whole mappings");
  }
  mmap(reinterpret_cast<void*>(address),
       bytes,
       PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
       -1,
       0);
  fake->mappings.erase(fake->mappings.find(address), fake->mappings.lower_bound(address + bytes));
  return result;
}

CUresult mem_set_access(CUdeviceptr address,
                        size_t bytes,
                        const CUmemAccessDesc* access,
                        size_t count) {
  REPRISE_FAKE_ENTER("cuMemSetAccess");
  if (const CUresult result = fake->enter_unsafe(); result != CUDA_SUCCESS) return result;
  const std::vector<Mapping*> mappings = mappings_of(address, bytes);
  if (mappings.empty()) return invalid("cuMemSetAccess of anything but whole mappings");
  if (count != 1 || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
      access->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      access->location.id != fake->gpu_of_thread()) {
    return invalid("cuMemSetAccess for another GPU");
  }
  mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE);
  for (Mapping* mapping : mappings) mapping->is_accessible = true;
  return CUDA_SUCCESS;
}

}  // namespace reprise::device::cuda::fake_driver
