#pragma once

#include <cstdint>

/// For tests only. A program that links this file counts its calls of operator new.
namespace reprise::kernels {

/// The number of allocations of the calling thread.
[[nodiscard]] uint64_t num_host_allocations() noexcept;

}  // namespace reprise::kernels
