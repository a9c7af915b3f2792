#pragma once

#include <cstdint>

namespace reprise::kernels {

/// Arguments of the kernel that counts the tokens of experts. One block counts all rows.
struct alignas(16) CountExpertsArguments {
  const int32_t* experts;     // [num_rows, top_k]; -1: none
  const int32_t* num_tokens;  // [1]: the rows after so many are padding
  int32_t* counts;            // [num_experts], which wrap around
  int64_t num_rows;
  int64_t top_k;
  int64_t num_experts;
};

}  // namespace reprise::kernels
