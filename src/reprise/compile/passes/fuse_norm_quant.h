#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// A norm of which only the eight-bit form is used is never stored in full:
///
///     %n = rms_norm(x, w) {e}
///     %q, %s = quantize_per_token(%n) {dtype}   ->  %q, %s = rms_norm_quant(x, w) {e, dtype}
///
/// Same for fused_add_rms_norm, whose sum stays what it is.
size_t fuse_norm_quant(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
