#pragma once

#include <cstdint>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "reprise/tensor/custom_op.h"
#include "reprise/tensor/tensor.h"

/// The operations models are written in. Each runs through the executor of its first argument: it
/// launches kernels, or records a program. All of them are functional (results are new tensors)
/// except kv_write and attention, which write into memory they are given.
///
/// \throws ShapeError when arguments do not fit, device::DeviceError from the device.
namespace reprise::ops {

/// Where the model asks for an op: what a refused trace points at. Never given by hand.
using Where = std::source_location;

/// Memory for a result of the same type as `like`.
[[nodiscard]] Tensor empty_like(const Tensor& like, Where where = Where::current());

/// View of `length` entries of dimension `dim` from `begin`.
[[nodiscard]] Tensor slice(
    const Tensor& x, int dim, int64_t begin, int64_t length, Where where = Where::current());
/// View [num_tokens, heads * head_dim] -> [num_tokens, heads, head_dim].
[[nodiscard]] Tensor unflatten(const Tensor& x, int64_t heads, Where where = Where::current());
/// View [num_tokens, heads, head_dim] -> [num_tokens, heads * head_dim].
[[nodiscard]] Tensor flatten(const Tensor& x, Where where = Where::current());

/// Row ids[t] of the table. Ids must be inside the table.
[[nodiscard]] Tensor embedding(const Tensor& ids,    // int32[num_tokens]
                               const Tensor& table,  // [vocab_size, hidden_size]
                               Where where = Where::current());
/// x / sqrt(mean(x^2) + epsilon) * weight over the last dimension, accumulated in float32.
[[nodiscard]] Tensor rms_norm(const Tensor& x,
                              const Tensor& weight,
                              float epsilon,
                              Where where = Where::current());
[[nodiscard]] Tensor add(const Tensor& a, const Tensor& b, Where where = Where::current());
/// The norm of residual + x, and that sum: the bits of rms_norm(add(residual, x)) and add(residual,
/// x).
[[nodiscard]] std::pair<Tensor, Tensor> fused_add_rms_norm(const Tensor& x,
                                                           const Tensor& residual,
                                                           const Tensor& weight,
                                                           float epsilon,
                                                           Where where = Where::current());
/// silu(gate) * up, where x is [num_tokens, gate | up].
[[nodiscard]] Tensor silu_and_mul(const Tensor& x, Where where = Where::current());
[[nodiscard]] Tensor gather_rows(const Tensor& x,        // [num_tokens, hidden_size]
                                 const Tensor& indices,  // int32[num_rows], inside x
                                 Where where = Where::current());

/// x @ weight^T + bias, accumulated in float32; an undefined bias is none.
[[nodiscard]] Tensor linear(const Tensor& x,          // [num_tokens, in_features]
                            const Tensor& weight,     // [out_features, in_features]
                            const Tensor& bias = {},  // [out_features]
                            Where where = Where::current());
/// Float32 logits. Only rows below num_rows[0] are computed: the count is read on the device when
/// the work runs, so one graph serves any number of sampled rows up to its size.
[[nodiscard]] Tensor lm_head(const Tensor& x,         // [max_rows, hidden_size]
                             const Tensor& weight,    // [vocab_size, hidden_size]
                             const Tensor& num_rows,  // int32[1]
                             Where where = Where::current());

/// Rotary embedding of queries and keys (halves rotated against each other, as Hugging Face's
/// Llama does it). cos_sin holds head_dim/2 cosines, then head_dim/2 sines, per position.
[[nodiscard]] std::pair<Tensor, Tensor> rope(
    const Tensor& q,          // [num_tokens, heads, head_dim]
    const Tensor& k,          // [num_tokens, kv_heads, head_dim]
    const Tensor& positions,  // int32[num_tokens]
    const Tensor& cos_sin,    // float32[max_position, head_dim]
    Where where = Where::current());
/// Writes token t's key and value to slot slot_mapping[t] = block * block_size + offset of the
/// caches; a negative slot writes nothing.
void kv_write(const Tensor& k,             // [num_tokens, kv_heads, head_dim]
              const Tensor& v,             // like k
              const Tensor& key_cache,     // [num_blocks, kv_heads, block_size, head_dim]
              const Tensor& value_cache,   // like key_cache
              const Tensor& slot_mapping,  // int32[num_tokens]
              Where where = Where::current());

struct AttentionArguments {
  Tensor query_start_loc;  // int32[num_reqs + 1], non-decreasing; request r owns that token range
  Tensor seq_lens;         // int32[num_reqs]: positions in the cache including this step's
  Tensor block_table;      // int32[>= num_reqs, max_blocks]
  float scale = 1.0F;
  int64_t sliding_window = 0;  // 0 = none
};

/// Causal attention of each token over its request's cached positions. Tokens at and beyond
/// query_start_loc[num_reqs] are padding: their output rows become zero.
void attention(const Tensor& q,  // [num_tokens, heads, head_dim]
               const Tensor& key_cache,
               const Tensor& value_cache,
               const AttentionArguments& arguments,
               const Tensor& out,  // like q
               Where where = Where::current());

/// An op of the user's: see CustomOp. Operands that it mutates must be declared state when the
/// model is compiled.
[[nodiscard]] std::vector<Tensor> custom(const CustomOp& op,
                                         std::span<const Tensor> inputs,
                                         Where where = Where::current());

}  // namespace reprise::ops
