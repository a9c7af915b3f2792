#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// A product that only a sum uses is added as it is made:
///
///     %p = linear(x, w, bias)
///     ...                       ->  ...
///     %s = add(residual, %p)        %s = linear_add(x, w, bias, residual)
///
/// The product may be either operand: a + b is b + a (a NaN may be the other's). Of two products
/// the second is fused.
size_t fuse_linear_add(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
