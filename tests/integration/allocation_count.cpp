// A separate file, because a compiler that sees both new and malloc in one file warns about a
// mismatch.
#include "tests/integration/allocation_count.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> count{0};

void* count_and_allocate(size_t bytes, size_t alignment) {
  count.fetch_add(1, std::memory_order_relaxed);
  // aligned_alloc needs a multiple of the alignment.
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded))
    return memory;
  throw std::bad_alloc();
}

}  // namespace

namespace reprise::testing {

int64_t num_allocations() noexcept { return count.load(std::memory_order_relaxed); }

}  // namespace reprise::testing

void* operator new(size_t bytes) { return count_and_allocate(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return count_and_allocate(bytes, static_cast<size_t>(alignment));
}
// Used by the standard library for temporary buffers.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return count_and_allocate(bytes, alignof(std::max_align_t));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
