#include "reprise/device/cpu/cpu_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "reprise/base/error.h"
#include "reprise/device/page_size.h"

namespace reprise::device {
namespace {

constexpr size_t kPage = 4096;

// The number of bytes that are mapped for a request. They are not rounded up to huge pages: the end
// of a weight would take a huge page of which it uses a part, about 1 MiB on average.
size_t mapped_bytes(size_t bytes) noexcept { return round_up(std::max<size_t>(bytes, 1), kPage); }

// The memory limit of the container, or the largest size_t if there is none.
size_t cgroup_bytes(const char* file) {
  size_t bytes = 0;
  if (std::ifstream in(file); in >> bytes) return bytes;
  return std::numeric_limits<size_t>::max();  // "max", or no cgroup v2
}

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

}  // namespace

BufferView CpuMemory::acquire(size_t bytes) {
  if (bytes > physical_bytes()) {
    throw OutOfMemory(fmt::format(
        "cpu: {} bytes were asked for; this machine has {} in all", bytes, physical_bytes()));
  }
  const size_t mapped = mapped_bytes(bytes);
  // Request more bytes, so that an aligned range can be cut out of them.
  const size_t slack = mapped >= kHugePage ? kHugePage - kPage : 0;
  void* raw =
      mmap(nullptr, mapped + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) {
    throw OutOfMemory(fmt::format("cpu: mmap of {} bytes failed: {}; {} bytes are allocated here",
                                  mapped,
                                  std::strerror(errno),
                                  allocated_bytes_.load()));
  }
  auto* data = static_cast<std::byte*>(raw);
  if (slack != 0) {
    const auto address = reinterpret_cast<uintptr_t>(data);
    const size_t before = round_up(address, kHugePage) - address;
    if (before != 0) munmap(data, before);
    data += before;
    if (before != slack) munmap(data + mapped, slack - before);
    // Weights are read once per token, so huge pages avoid TLB misses. If the system refuses, the
    // only loss is speed.
    (void)madvise(data, mapped / kHugePage * kHugePage, MADV_HUGEPAGE);
  }
  allocated_bytes_ += mapped;
  return {data, bytes};
}

void CpuMemory::give_back(BufferView memory) noexcept {
  const size_t mapped = mapped_bytes(memory.bytes);
  munmap(memory.data, mapped);
  allocated_bytes_ -= mapped;
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

MemoryInfo CpuMemory::info() const {
  const size_t limit = cgroup_bytes("/sys/fs/cgroup/memory.max");
  const size_t total = std::min(physical_bytes(), limit);
  size_t free = meminfo_bytes("MemAvailable:");
  if (limit != std::numeric_limits<size_t>::max()) {
    const size_t used = cgroup_bytes("/sys/fs/cgroup/memory.current");
    free = std::min(free, limit > used ? limit - used : 0);
  }
  return {.total = total, .free = std::min(free, total), .allocated_here = allocated_bytes_.load()};
}

}  // namespace reprise::device
