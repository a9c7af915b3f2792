#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// When only the quantised form of attention's output is used, attention writes that form:
///
///     %m = empty()                                  %m = empty()
///     %o = attention(..., %m)                       %o = attention_quant(..., scale, %m)
///     %f = flatten(%o)                          ->  %q = flatten(%o)
///     %q = quantize_static(%f, scale) {dtype}
///
/// The flatten is optional. The scale must be computed before attention. A program that was split
/// at attention has no match.
size_t fuse_attn_quant(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
