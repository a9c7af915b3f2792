#include "tests/support/fake_cuda/fake_driver_state_fixture.h"

#include <cstdlib>
#include <cstring>
#include <utility>

namespace reprise::device::cuda::fake_driver {
namespace {

constexpr size_t kAlignment = 256;  // the smallest alignment that the driver guarantees

}  // namespace

CUresult mem_alloc(CUdeviceptr* address, size_t bytes) {
  REPRISE_FAKE_ENTER("cuMemAlloc");
  if (const CUresult result = fake->enter_unsafe(); result != CUDA_SUCCESS) return result;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > fake->free_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
  // Makes an address that no larger alignment divides.
  HostMemory memory(std::aligned_alloc(8192, (bytes + kAlignment + 8191) / 8192 * 8192));
  const CUdeviceptr base = reinterpret_cast<CUdeviceptr>(memory.get()) + kAlignment;
  std::memset(reinterpret_cast<void*>(base), 0xFF, bytes);
  fake->allocations[base] = {.memory = std::move(memory), .bytes = bytes};
  fake->allocated_bytes += bytes;
  *address = base;
  return CUDA_SUCCESS;
}

CUresult mem_free(CUdeviceptr address) {
  REPRISE_FAKE_RELEASE("cuMemFree");
  if (const CUresult unsafe = fake->enter_unsafe(); unsafe != CUDA_SUCCESS) return unsafe;
  const auto found = fake->allocations.find(address);
  if (found == fake->allocations.end()) return fake->misuse("cuMemFree of foreign memory");
  fake->drain_all();  // the driver waits for the GPU before it frees plain memory
  fake->allocated_bytes -= found->second.bytes;
  fake->allocations.erase(found);
  return result;
}

CUresult mem_host_alloc(void** data, size_t bytes, unsigned int) {
  REPRISE_FAKE_ENTER("cuMemHostAlloc");
  if (const CUresult result = fake->enter_unsafe(); result != CUDA_SUCCESS) return result;
  HostMemory memory(std::malloc(bytes));
  *data = memory.get();
  fake->host_allocations[reinterpret_cast<CUdeviceptr>(*data)] = {.memory = std::move(memory),
                                                                  .bytes = bytes};
  return CUDA_SUCCESS;
}

CUresult mem_free_host(void* data) {
  REPRISE_FAKE_RELEASE("cuMemFreeHost");
  if (const CUresult unsafe = fake->enter_unsafe(); unsafe != CUDA_SUCCESS) return unsafe;
  const auto found = fake->host_allocations.find(reinterpret_cast<CUdeviceptr>(data));
  if (found == fake->host_allocations.end()) {
    return fake->misuse("cuMemFreeHost of foreign memory");
  }
  const CUdeviceptr begin = found->first;
  const CUdeviceptr end = begin + found->second.bytes;
  const auto is_within = [&](CUdeviceptr address) { return address >= begin && address < end; };
  if (fake->is_queued([&](const Node& node) {
        return node.type == CU_GRAPH_NODE_TYPE_MEMCPY &&
               (is_within(node.source) || is_within(node.destination));
      })) {
    (void)fake->misuse("cuMemFreeHost of memory that queued copies use");
    fake->drain_all();
  }
  fake->host_allocations.erase(found);
  return result;
}

CUresult mem_get_info(size_t* free, size_t* total) {
  REPRISE_FAKE_ENTER("cuMemGetInfo");
  *total = fake->total_bytes;
  *free = fake->free_bytes();
  return CUDA_SUCCESS;
}

namespace {

bool is_page_locked(CUdeviceptr address, size_t bytes) {
  auto next = fake->host_allocations.upper_bound(address);
  if (next == fake->host_allocations.begin()) return false;
  --next;
  return address + bytes <= next->first + next->second.bytes;
}

CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, bool host) {
  if (host && fake->streams.has(stream) && reinterpret_cast<Stream*>(stream)->capture != nullptr) {
    return fake->misuse("a copy from or to the host was captured");
  }
  return fake->submit(
      stream,
      {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .destination = to, .source = from, .bytes = bytes});
}

}  // namespace

// The GPU reads and writes page-locked memory when the stream gets to the copy. For other memory,
// the driver first copies the source before it returns, or waits if the GPU writes to the host.

CUresult memcpy_htod_async(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  REPRISE_FAKE_ENTER("cuMemcpyHtoDAsync");
  if (!fake->owns(to, bytes)) return fake->misuse("a copy to foreign memory");
  fake->bytes_from_host += bytes;
  const auto source = reinterpret_cast<CUdeviceptr>(from);
  if (is_page_locked(source, bytes)) return copy(to, source, bytes, stream, true);
  if (fake->streams.has(stream) && reinterpret_cast<Stream*>(stream)->capture != nullptr) {
    return fake->misuse("a copy from or to the host was captured");
  }
  const auto* begin = static_cast<const std::byte*>(from);
  return fake->submit(stream,
                      {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                       .parameter = std::vector<std::byte>(begin, begin + bytes),
                       .destination = to,
                       .bytes = bytes});
}

CUresult memcpy_dtoh_async(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  REPRISE_FAKE_ENTER("cuMemcpyDtoHAsync");
  if (!fake->owns(from, bytes)) return fake->misuse("a copy from foreign memory");
  const auto destination = reinterpret_cast<CUdeviceptr>(to);
  const CUresult result = copy(destination, from, bytes, stream, true);
  if (result != CUDA_SUCCESS || is_page_locked(destination, bytes)) return result;
  fake->drain(*reinterpret_cast<Stream*>(stream)->queue);
  return fake->status();
}

CUresult memcpy_dtod_async(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  REPRISE_FAKE_ENTER("cuMemcpyDtoDAsync");
  if (!fake->owns(from, bytes) || !fake->owns(to, bytes)) {
    return fake->misuse("a copy of foreign memory");
  }
  return copy(to, from, bytes, stream, false);
}

CUresult memset_d8_async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  REPRISE_FAKE_ENTER("cuMemsetD8Async");
  if (!fake->owns(to, bytes)) return fake->misuse("a fill of foreign memory");
  return fake->submit(
      stream,
      {.type = CU_GRAPH_NODE_TYPE_MEMSET, .destination = to, .value = value, .bytes = bytes});
}

}  // namespace reprise::device::cuda::fake_driver
