#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// Fuses a matrix product and a sum, if no other op uses the product:
///
///     %p = linear(x, w, bias)
///     ...                       ->  ...
///     %s = add(residual, %p)        %s = linear_add(x, w, bias, residual)
///
/// The product may be either operand, because a + b is b + a (only the payload of a NaN may
/// differ). If both operands are products, the second one is fused.
size_t fuse_linear_add(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
