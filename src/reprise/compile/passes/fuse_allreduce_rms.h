#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// Fuses a sum over ranks with the addition and the norm after it:
///
///     %a = all_reduce(x) {ranks}
///     %n, %s = fused_add_rms_norm(%a,    ->  %n, %s = fused_all_reduce_add_rms_norm(x, residual,
///     w)
///         residual, w) {e}                       {e, ranks}
///
/// No other op may use %a. Without a residual, as in rms_norm(%a, w), other ops may use %a, because
/// the second result of the fused op is %a.
size_t fuse_allreduce_rms(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
