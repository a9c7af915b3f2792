#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// Fuses a matrix product, whose columns are the heads of q, k and v, with the rotation and the
/// cache write. No other op may use the product:
///
///     %p = linear(x, w, bias)
///     %q = unflatten(slice(%p))
///     %k = unflatten(slice(%p))     ->  ...
///     %v = unflatten(slice(%p))
///     %q1, %c1, %d1 =                   %q1, %c1, %d1 = linear_rope_kv_write(x, w, bias,
///         rope_kv_write(%q, %k, %v, ...)    ...) {heads}
size_t fuse_linear_rope_kv_write(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
