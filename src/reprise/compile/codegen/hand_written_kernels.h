#pragma once

#include <cstdint>
#include <string_view>

#include "reprise/device/kernel.h"

namespace reprise::compile {

/// Arguments of the hand-written kernels, with which the benchmark compares generated code. They
/// compute in bfloat16, use the same intrinsics as the precompiled kernels, and are compiled with
/// -O3 for AVX-512. `width` is the width of a row or, for bodies with heads, the width of each of
/// the `heads` and `kv_heads`.
struct HandWrittenArguments {
  const void* group = nullptr;  // RowGroupArguments
  int64_t width = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
};
/// The hand-written version of the body with this name, or nullptr.
[[nodiscard]] device::CpuKernelFunction find_hand_written_kernel(std::string_view body);

}  // namespace reprise::compile
