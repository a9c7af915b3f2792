#pragma once

#include <cstdint>

/// For tests only: linked in, it replaces operator new by one that counts.
namespace reprise::kernels {

/// Allocations that the calling thread has made.
[[nodiscard]] uint64_t num_host_allocations() noexcept;

}  // namespace reprise::kernels
