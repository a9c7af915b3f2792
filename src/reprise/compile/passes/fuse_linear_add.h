#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// A matrix product that only a sum uses is added to the other operand as it is computed:
///
///     %p = linear(x, w, bias)
///     ...                       ->  ...
///     %s = add(residual, %p)        %s = linear_add(x, w, bias, residual)
///
/// The product may be either operand, because a + b is b + a (only the payload of a NaN may
/// differ). When both operands are products, the second one is fused.
size_t fuse_linear_add(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
