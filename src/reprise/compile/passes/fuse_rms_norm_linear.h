#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// Fuses a norm into the matrix product after it, if no other op uses the norm:
///
///     %n = rms_norm(%x, w) {e}
///     ...                                    ->  ...
///     %a = linear_silu_and_mul(%n, p, bias)      %a = rms_norm_linear_silu_and_mul(%x, p, bias, w)
///     {e}
///
/// The same applies to linear_rope_kv_write, if the norms of its heads have the same epsilon, and
/// to lm_head. Only useful for few rows: on a GPU, each block of the product computes the norm of
/// all rows again.
size_t fuse_rms_norm_linear(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
