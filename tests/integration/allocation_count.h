#pragma once

#include <cstdint>

/// A program that links this file gets an operator new that counts.
namespace reprise::testing {

/// Heap allocations of all threads so far.
[[nodiscard]] int64_t num_allocations() noexcept;

}  // namespace reprise::testing
