#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// A norm that only a fused product uses is taken by the product:
///
///     %n = rms_norm(%x, w) {e}
///     ...                                    ->  ...
///     %a = linear_silu_and_mul(%n, p, bias)      %a = rms_norm_linear_silu_and_mul(%x, p, bias, w)
///     {e}
///
/// Same for linear_rope_kv_write, if norms of heads have the same epsilon, and for lm_head. For few
/// rows: on a GPU each block of the product then takes the norm of all of them.
size_t fuse_rms_norm_linear(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
