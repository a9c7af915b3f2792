#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// Attention of which only the eight-bit form is used writes that:
///
///     %m = empty()                                  %m = empty()
///     %o = attention(..., %m)                       %o = attention_quant(..., scale, %m)
///     %f = flatten(%o)                          ->  %q = flatten(%o)
///     %q = quantize_static(%f, scale) {dtype}
///
/// With or without the flatten. The scale must be there before attention. Only where attention is
/// part of the program: what was split at attention has nothing to match.
size_t fuse_attn_quant(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
