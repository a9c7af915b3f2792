#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reprise/tensor/compile_support.h"
#include "reprise/tensor/ops.h"

/// Lab 06, solution: see ../06_model_of_your_own.md.
namespace course {

/// x + x * weight^T, for x of [rows, width] and a weight of [width, width].
[[nodiscard]] inline reprise::Tensor residual_block(const reprise::Tensor& x,
                                                    const reprise::Tensor& weight) {
  return reprise::ops::add(x, reprise::ops::linear(x, weight));
}

/// The argument of the block is called "x". One program serves every number of rows.
[[nodiscard]] inline reprise::CompileSupport for_every_batch() {
  return {.dynamic_arg_dims = {{"x", 0}}};
}

/// Also opens the width, which is the model's: no program fits all sizes.
[[nodiscard]] inline reprise::CompileSupport too_open() {
  return {.dynamic_arg_dims = {{"x", 0}, {"x", 1}}};
}

/// Nothing is compiled.
[[nodiscard]] inline reprise::CompileSupport kept_out() { return {.do_not_compile = true}; }

/// How many programs level 1 makes for these batch sizes, if each size needs a program of its own
/// and there are at most `limit`.
[[nodiscard]] inline size_t programs_needed(std::span<const int64_t> batch_sizes, size_t limit) {
  std::vector<int64_t> sizes(batch_sizes.begin(), batch_sizes.end());
  std::ranges::sort(sizes);
  const auto repeated = std::ranges::unique(sizes);
  return std::min(limit, sizes.size() - repeated.size());
}

}  // namespace course
