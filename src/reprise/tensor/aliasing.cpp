#include "reprise/tensor/aliasing.h"

namespace reprise {

bool can_alias(OpCode code, size_t operand, size_t result) noexcept {
  switch (code) {
    // Each element is read before its sum is written, by whoever writes it.
    case OpCode::add:
      return operand <= 1;
    // A block has read a whole row before it writes the first element of its norm.
    case OpCode::rms_norm:
      return operand == 0;
    // The sum takes the place of either summand, and the norm, which is made of the sum, of the
    // other.
    case OpCode::fused_add_rms_norm:
      return operand <= 1;
    // The quantised norm and its scales are of other types; the sum is result 2.
    case OpCode::fused_add_rms_norm_quant:
      return operand <= 1 && result == 2;
    // Each tile reads the residual where it writes.
    case OpCode::linear_add:
      return operand == 3;
    // Heads are turned in place: q' over q, k' over k.
    case OpCode::rope:
      return operand == result;
    case OpCode::rope_kv_write:
      return operand == 0;
    // Elements of other operands would be overwritten before they are read.
    case OpCode::empty:
    case OpCode::slice:
    case OpCode::unflatten:
    case OpCode::flatten:
    case OpCode::embedding:
    case OpCode::silu_and_mul:
    case OpCode::gather_rows:
    case OpCode::linear:
    case OpCode::lm_head:
    case OpCode::kv_write:
    case OpCode::attention:
    case OpCode::linear_silu_and_mul:
    case OpCode::linear_rope_kv_write:
    case OpCode::rms_norm_linear_silu_and_mul:
    case OpCode::rms_norm_linear_rope_kv_write:
    case OpCode::rms_norm_lm_head:
    case OpCode::quantize_per_token:
    case OpCode::quantize_static:
    case OpCode::rms_norm_quant:
    case OpCode::silu_and_mul_quant:
    case OpCode::scaled_linear:
    case OpCode::attention_quant:
    case OpCode::all_reduce:
    case OpCode::reduce_scatter:
    case OpCode::all_gather:
    case OpCode::fused_all_reduce_add_rms_norm:
    case OpCode::linear_reduce_scatter:
    case OpCode::all_gather_linear:
    case OpCode::row_group:
    case OpCode::custom:
      return false;
  }
  return false;
}

}  // namespace reprise
