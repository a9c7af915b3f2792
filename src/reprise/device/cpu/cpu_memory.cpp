#include "reprise/device/cpu/cpu_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/device/cpu/memory_limits.h"
#include "reprise/device/page_size.h"

namespace reprise::device {
namespace {

constexpr size_t kPage = 4096;

// The number of bytes that are mapped for a request. They are not rounded up to huge pages: the end
// of a weight would take a huge page of which it uses a part, about 1 MiB on average.
size_t mapped_bytes(size_t bytes) noexcept { return round_up(std::max<size_t>(bytes, 1), kPage); }

size_t meminfo_bytes(const std::string& field) {
  std::ifstream in("/proc/meminfo");
  std::string name;
  size_t kilobytes = 0;
  while (in >> name >> kilobytes) {
    if (name == field) return kilobytes * 1024;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

size_t physical_bytes() noexcept {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// Maps private pages. Large ranges are aligned to huge pages, and use them if the system has them.
std::byte* map_pages(size_t bytes, int protection, int flags) {
  // Request more bytes, so that an aligned range can be cut out of them.
  const size_t slack = bytes >= kHugePage ? kHugePage - kPage : 0;
  void* raw = mmap(nullptr, bytes + slack, protection, flags, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* data = static_cast<std::byte*>(raw);
  if (slack == 0) return data;
  const auto address = reinterpret_cast<uintptr_t>(data);
  const size_t before = round_up(address, kHugePage) - address;
  if (before != 0) munmap(data, before);
  data += before;
  if (before != slack) munmap(data + bytes, slack - before);
  // Weights are read once per token, so huge pages avoid TLB misses. If the system refuses, the
  // only loss is speed.
  (void)madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return data;
}

// The number of bytes that have memory, in whole pages, of a range that may be touched.
size_t resident_bytes(std::byte* data, size_t bytes) {
  constexpr size_t kPagesAtOnce = size_t{1} << 16;
  std::vector<unsigned char> states(std::min(kPagesAtOnce, bytes / kPage));
  size_t resident = 0;
  for (size_t offset = 0; offset < bytes; offset += kPagesAtOnce * kPage) {
    const size_t length = std::min(bytes - offset, kPagesAtOnce * kPage);
    // If the system gives no answer, all pages count as having memory.
    if (mincore(data + offset, length, states.data()) != 0) return bytes;
    const auto end = states.begin() + static_cast<ptrdiff_t>(length / kPage);
    resident += static_cast<size_t>(std::count_if(
                    states.begin(), end, [](unsigned char state) { return (state & 1) != 0; })) *
                kPage;
  }
  return resident;
}

}  // namespace

BufferView CpuMemory::acquire(size_t bytes) {
  if (bytes > physical_bytes()) {
    throw OutOfMemory(fmt::format(
        "cpu: {} bytes were asked for; this machine has {} in all", bytes, physical_bytes()));
  }
  const size_t mapped = mapped_bytes(bytes);
  std::byte* data = map_pages(mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  if (data == nullptr) {
    throw OutOfMemory(fmt::format("cpu: mmap of {} bytes failed: {}; {} bytes are allocated here",
                                  mapped,
                                  std::strerror(errno),
                                  allocated_bytes()));
  }
  record(data, {.bytes = mapped, .parts = {{.data = data, .bytes = mapped}}});
  return {data, bytes};
}

void CpuMemory::record(std::byte* data, Mapping mapping) {
  try {
    const std::lock_guard lock(mutex_);
    mappings_.emplace(data, std::move(mapping));
  } catch (...) {
    munmap(data, mapping.bytes);
    throw;
  }
}

bool CpuMemory::can_reserve() noexcept {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY;
}

size_t CpuMemory::granularity() noexcept { return kPage; }

BufferView CpuMemory::reserve(size_t bytes) {
  const size_t mapped = mapped_bytes(bytes);
  std::byte* data = map_pages(mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  if (data == nullptr) {
    throw OutOfMemory(
        fmt::format("cpu: mmap of {} bytes of addresses failed: {}", mapped, std::strerror(errno)));
  }
  record(data, {.bytes = mapped, .parts = {}});
  return {data, bytes};
}

void CpuMemory::commit(BufferView buffer, size_t offset, size_t bytes) {
  auto* const base = static_cast<std::byte*>(buffer.data);
  const std::lock_guard lock(mutex_);
  const auto found = mappings_.find(base);
  REPRISE_ASSERT(found != mappings_.end() && offset + bytes <= found->second.bytes,
                 "cpu: commit of {} bytes at offset {} of a buffer of {} bytes, which is too small "
                 "or was not reserved",
                 bytes,
                 offset,
                 buffer.bytes);
  std::vector<Part>& parts = found->second.parts;
  parts.reserve(parts.size() + 1);
  if (mprotect(base + offset, bytes, PROT_READ | PROT_WRITE) != 0) {
    throw OutOfMemory(
        fmt::format("cpu: mprotect of {} bytes failed: {}; the cache takes less with "
                    "a smaller --gpu-memory-utilization",
                    bytes,
                    std::strerror(errno)));
  }
  parts.push_back({.data = base + offset, .bytes = bytes});
}

void CpuMemory::give_back(BufferView memory) noexcept {
  munmap(memory.data, mapped_bytes(memory.bytes));
  const std::lock_guard lock(mutex_);
  mappings_.erase(static_cast<std::byte*>(memory.data));
}

bool CpuMemory::prefer_node(void* data, size_t bytes, int node) noexcept {
#ifdef SYS_mbind
  constexpr int kPreferred = 1;  // MPOL_PREFERRED: another node if this one is full
  constexpr size_t kMaskBits = 1024;
  constexpr size_t kWordBits = 64;
  if (node < 0 || static_cast<size_t>(node) >= kMaskBits) return false;
  std::array<uint64_t, kMaskBits / kWordBits> mask{};
  mask[static_cast<size_t>(node) / kWordBits] = uint64_t{1}
                                                << static_cast<size_t>(node) % kWordBits;
  // The C library has no function for this call, and libnuma would be needed for nothing else.
  return syscall(SYS_mbind, data, mapped_bytes(bytes), kPreferred, mask.data(), kMaskBits, 0) == 0;
#else
  (void)data, (void)bytes, (void)node;
  return false;
#endif
}

void CpuMemory::discard(BufferView memory) noexcept {
  // The mapping is private and anonymous, so the next access finds zeros.
  (void)madvise(memory.data, mapped_bytes(memory.bytes), MADV_DONTNEED);
}

size_t CpuMemory::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (const auto& [data, mapping] : mappings_) {
    for (const Part& part : mapping.parts) bytes += part.bytes;
  }
  return bytes;
}

size_t CpuMemory::untouched_bytes() const {
  const std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (const auto& [data, mapping] : mappings_) {
    for (const Part& part : mapping.parts) {
      bytes += part.bytes - resident_bytes(part.data, part.bytes);
    }
  }
  return bytes;
}

std::string tightest_memory_limit() {
  const std::vector<MemoryLimit> limits = read_memory_limits(physical_bytes());
  if (limits.empty()) return "";
  return std::ranges::min_element(limits, {}, &MemoryLimit::bytes)->name;
}

MemoryInfo CpuMemory::info() const {
  const size_t untouched = untouched_bytes();
  const size_t available = meminfo_bytes("MemAvailable:");
  MemoryInfo info{.total = physical_bytes(),
                  .free = available - std::min(available, untouched),
                  .allocated_here = allocated_bytes()};
  for (const MemoryLimit& limit : read_memory_limits(info.total)) {
    const size_t used = limit.used + (limit.counts_untouched ? 0 : untouched);
    info.free = std::min(info.free, limit.bytes - std::min(limit.bytes, used));
    info.total = std::min(info.total, limit.bytes);
  }
  info.free = std::min(info.free, info.total);
  return info;
}

}  // namespace reprise::device
