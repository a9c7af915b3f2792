#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "not_yet.h"
#include "reprise/tensor/compile_support.h"
#include "reprise/tensor/ops.h"

/// Lab 06, starter: see ../06_model_of_your_own.md.
namespace course {

/// x + x * weight^T, for x of [rows, width] and a weight of [width, width].
[[nodiscard]] inline reprise::Tensor residual_block(const reprise::Tensor&,
                                                    const reprise::Tensor&) {
  not_yet("residual_block");
}

/// The argument of the block is called "x". One program serves every number of rows.
[[nodiscard]] inline reprise::CompileSupport for_every_batch() { not_yet("for_every_batch"); }

/// Also opens the width, which is the model's: no program fits all sizes.
[[nodiscard]] inline reprise::CompileSupport too_open() { not_yet("too_open"); }

/// Nothing is compiled.
[[nodiscard]] inline reprise::CompileSupport kept_out() { not_yet("kept_out"); }

/// How many programs level 1 makes for these batch sizes, if each size needs a program of its own
/// and there are at most `limit`.
[[nodiscard]] inline size_t programs_needed(std::span<const int64_t>, size_t) {
  not_yet("programs_needed");
}

}  // namespace course
