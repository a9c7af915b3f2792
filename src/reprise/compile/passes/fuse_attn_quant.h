#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// If every use of attention's output quantises it, attention writes the quantised output:
///
///     %m = empty()                                  %m = empty()
///     %o = attention(..., %m)                       %o = attention_quant(..., scale, %m)
///     %f = flatten(%o)                          ->  %q = flatten(%o)
///     %q = quantize_static(%f, scale) {dtype}
///
/// The flatten may be missing. The scale must be computed before attention. If the program was
/// split at attention, the pass finds no match.
size_t fuse_attn_quant(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
