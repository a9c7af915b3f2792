// This is a separate file, because a compiler that sees both operator new and its malloc warns of a
// mismatch.
#include "tests/support/kernels/host_allocations.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace reprise::kernels {
namespace {

thread_local uint64_t num_allocations = 0;

void* count_and_allocate(size_t bytes) noexcept {
  ++num_allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

}  // namespace

uint64_t num_host_allocations() noexcept { return num_allocations; }

}  // namespace reprise::kernels

void* operator new(size_t bytes) {
  if (void* memory = reprise::kernels::count_and_allocate(bytes)) return memory;
  throw std::bad_alloc();
}
// std::stable_sort allocates its buffer with this operator, and frees it with the operator below.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return reprise::kernels::count_and_allocate(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
