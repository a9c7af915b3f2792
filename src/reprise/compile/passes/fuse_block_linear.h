#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// Products with packed weights take over what surrounds them, each only where no other op uses the
/// value in between:
///
///     quantize_blocks(rms_norm(x, w))           ->  rms_norm_quantize_blocks(x, w)
///     add(residual, block_linear(q, w, bias))   ->  block_linear_add(q, w, bias, residual)
///     silu_and_mul(block_linear(q, w, bias))    ->  block_linear_silu_and_mul(q, w, bias)
///     quantize_blocks(that)                     ->  block_linear_silu_and_mul_quantize_blocks
///     add(residual, int8_linear(q, s, w, bias)) ->  int8_linear_add(q, s, w, bias, residual)
///     silu_and_mul(int8_linear(q, s, w, bias))  ->  int8_linear_silu_and_mul(q, s, w, bias)
///
/// The product may be either operand of the sum, because a + b is b + a (only the payload of a NaN
/// may differ).
size_t fuse_block_linear(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
