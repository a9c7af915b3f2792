#pragma once

#include <cstdint>

/// Linked in, it replaces operator new by one that counts.
namespace reprise::testing {

/// Heap allocations of all threads so far.
[[nodiscard]] int64_t num_allocations() noexcept;

}  // namespace reprise::testing
