#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// Asynchronous tensor parallelism. A rank sends finished parts of a matrix product while it
/// computes the rest, and it multiplies rows as they arrive:
///
///     reduce_scatter(linear(x, w, bias))   ->  linear_reduce_scatter(x, w, bias)
///     linear(all_gather(x), w, bias)       ->  all_gather_linear(x, w, bias)
///
/// No other op may use the value between the two ops.
size_t fuse_gemm_comms(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
