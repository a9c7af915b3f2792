#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// If every use of an activation quantises it, the unquantised activation is never stored:
///
///     %a = silu_and_mul(x)
///     %q, %s = quantize_per_token(%a) {dtype}   ->  %q, %s = silu_and_mul_quant(x) {dtype}
size_t fuse_act_quant(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
