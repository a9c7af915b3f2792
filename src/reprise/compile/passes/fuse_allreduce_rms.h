#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// The launch that sums over ranks also computes the norm of the sum:
///
///     %a = all_reduce(x) {ranks}
///     %n, %s = fused_add_rms_norm(%a,    ->  %n, %s = fused_all_reduce_add_rms_norm(x, residual,
///     w)
///         residual, w) {e}                       {e, ranks}
///
/// No other op may use %a. For rms_norm(%a, w), without a residual, other ops may use %a, because
/// %s is %a then.
size_t fuse_allreduce_rms(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
