#pragma once

#include <cstdint>
#include <string_view>

#include "reprise/device/kernel.h"

namespace reprise::compile {

/// For the benchmark: the body of that name in bfloat16, written by hand in intrinsics with the
/// precompiled kernels' own code and compiled with -O3 for AVX-512. Takes RowGroupArguments; widths
/// are arguments here: `width` of a row, `heads` and `kv_heads` of `width` each where there are
/// any.
struct HandWrittenArguments {
  const void* group = nullptr;  // RowGroupArguments
  int64_t width = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
};
/// nullptr for a body without one.
[[nodiscard]] device::CpuKernelFunction find_hand_written_kernel(std::string_view body);

}  // namespace reprise::compile
