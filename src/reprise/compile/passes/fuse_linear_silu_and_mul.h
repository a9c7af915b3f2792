#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// Fuses a matrix product with the activation, if no other op uses the product:
///
///     %p = linear(x, w, bias)
///     ...                       ->  ...
///     %a = silu_and_mul(%p)         %a = linear_silu_and_mul(x, w, bias)
size_t fuse_linear_silu_and_mul(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
