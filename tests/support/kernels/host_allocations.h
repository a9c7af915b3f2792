#pragma once

#include <cstdint>

/// For tests only. In a program that links this file, every call of operator new is counted.
namespace reprise::kernels {

/// The number of allocations that the calling thread has made.
[[nodiscard]] uint64_t num_host_allocations() noexcept;

}  // namespace reprise::kernels
