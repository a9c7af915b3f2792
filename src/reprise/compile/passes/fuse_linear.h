#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

/// The passes that make a neighbour of a matrix product part of it. All of them read one table in
/// fuse_linear.cpp: which op next to which product gives which fused op. The fused op takes the
/// operands of both by their names. A value between the two ops must have no other use.
namespace reprise::compile {

/// Products of quantised rows, which are always worth it:
///
///     quantize_blocks(rms_norm(x, w))       ->  rms_norm_quantize_blocks(x, w)
///     add(residual, linear(q, w, bias))     ->  linear_add(q, w, bias, residual)
///     silu_and_mul(linear(q, w, bias))      ->  linear_silu_and_mul(q, w, bias)
///     quantize_blocks(that)                 ->  linear_silu_and_mul_quantize_blocks(q, w, bias)
size_t fuse_block_linear(program::Program& program, const NodePredicate& has_kernel = {});

/// A product and a sum:
///
///     %p = linear(x, w, bias)
///     ...                       ->  ...
///     %s = add(residual, %p)        %s = linear_add(x, w, bias, residual)
///
/// The product may be either operand, because a + b is b + a (only the payload of a NaN may
/// differ). If both operands are products, the second one is fused.
size_t fuse_linear_add(program::Program& program, const NodePredicate& has_kernel = {});

/// A product and the activation:
///
///     %p = linear(x, w, bias)
///     ...                       ->  ...
///     %a = silu_and_mul(%p)         %a = linear_silu_and_mul(x, w, bias)
size_t fuse_linear_silu_and_mul(program::Program& program, const NodePredicate& has_kernel = {});

/// A product, whose columns are the heads of q, k and v, with the rotation and the cache write:
///
///     %p = linear(x, w, bias)
///     %q = unflatten(slice(%p))
///     %k = unflatten(slice(%p))     ->  ...
///     %v = unflatten(slice(%p))
///     %q1, %c1, %d1 =                   %q1, %c1, %d1 = linear_rope_kv_write(x, w, bias,
///         rope_kv_write(%q, %k, %v, ...)    ...) {heads}
size_t fuse_linear_rope_kv_write(program::Program& program, const NodePredicate& has_kernel = {});

/// A norm and the product after it:
///
///     %n = rms_norm(%x, w) {e}
///     ...                                    ->  ...
///     %a = linear_silu_and_mul(%n, p, bias)      %a = linear_silu_and_mul(%x, p, bias, none, w)
///     {e}
///
/// The same applies to linear_rope_kv_write, if the norms of its heads have the same epsilon, and
/// to lm_head. Only useful for few rows: on a GPU, each block of the product computes the norm of
/// all rows again.
size_t fuse_rms_norm_linear(program::Program& program, const NodePredicate& has_kernel = {});

/// A product and the quantisation of its rows, with the norm before it where the product can have
/// one:
///
///     %q = rms_norm_quantize_blocks(%x, w) {e}
///     ...                                    ->  ...
///     %a = linear_silu_and_mul(%q, p, bias)      %a = linear_silu_and_mul(%x, p, bias, none, w)
///     {e}
///
///     %q = linear_silu_and_mul_quantize_blocks(%r, v)      %b = linear_silu_and_mul(%r, v)
///     ...                                              ->  ...
///     %s = linear_add(%q, p, bias, residual)               %s = linear_add(%b, p, bias, residual)
///
/// The same applies to quantize_blocks, quantize_per_token and rms_norm_quant, and to linear,
/// lm_head and the linear of rope_kv_write, which becomes linear_rope_kv_write. A linear has no
/// norm, so a quantised norm before it stays. Only for few rows, on devices whose products quantise
/// rows themselves.
size_t fuse_quantize_linear(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
