#pragma once

#include <cstdint>
#include <string_view>

#include "reprise/device/kernel.h"

namespace reprise::compile {

/// For the benchmark: a hand-written version of the body of that name, in bfloat16, with the same
/// intrinsics as the precompiled kernels and compiled with -O3 for AVX-512. The widths are
/// arguments: `width` of a row; for bodies on heads, `heads` and `kv_heads` of `width` each.
/// `group` points to the RowGroupArguments.
struct HandWrittenArguments {
  const void* group = nullptr;  // RowGroupArguments
  int64_t width = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
};
/// Returns nullptr when the body has no hand-written version.
[[nodiscard]] device::CpuKernelFunction find_hand_written_kernel(std::string_view body);

}  // namespace reprise::compile
