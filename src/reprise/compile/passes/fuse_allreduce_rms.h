#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// A sum over ranks is normed by those who make it:
///
///     %a = all_reduce(x) {ranks}
///     %n, %s = fused_add_rms_norm(%a,    ->  %n, %s = fused_all_reduce_add_rms_norm(x, residual,
///     w)
///         residual, w) {e}                       {e, ranks}
///
/// Nothing else may use %a. Without a residual, of rms_norm(%a, w), anything may: %s is %a then.
size_t fuse_allreduce_rms(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
