#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// If every use of a norm quantises it, the unquantised norm is never stored:
///
///     %n = rms_norm(x, w) {e}
///     %q, %s = quantize_per_token(%n) {dtype}   ->  %q, %s = rms_norm_quant(x, w) {e, dtype}
///
/// The same applies to fused_add_rms_norm. Its second result, the sum, stays unquantised.
size_t fuse_norm_quant(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
