#pragma once

#include <cstdint>

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/kernels/kv_write/kv_write.h"
#include "reprise/kernels/op_run.h"
#include "reprise/tensor/attention_path.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// The arguments of paged causal attention for any mix of prefill and decode, borrowed for the
/// call.
///
/// Request r owns the tokens [query_start_loc[r], query_start_loc[r + 1]), which are the last
/// tokens of its seq_lens[r] positions. Each token sees all positions up to its own, or the last
/// `sliding_window` of these, or those of its own chunk of `chunk_size` positions. Tokens from
/// query_start_loc[num_reqs] on, and tokens that see no position, get rows of zeros. All lengths
/// are read when the work runs, so a captured launch serves any batch of its shape. Cache rows and
/// table entries that no token sees are not read.
struct AttentionCall {
  const Tensor& q;                // [num_tokens, heads, head_dim], strided
  const Tensor& key_cache;        // [num_blocks, kv_heads, block_size, head_dim], type of q, or
                                  // rows of eight bits as launch_kv_write writes them
  const Tensor& value_cache;      // like key_cache
  const Tensor& query_start_loc;  // int32[num_reqs + 1]
  const Tensor& seq_lens;         // int32[num_reqs]
  const Tensor& block_table;      // int32[>= num_reqs, max_blocks]
  const Tensor& out;              // like q, strided; of eight bits if there is an out_scale
  float scale = 1.0F;
  int64_t sliding_window = 0;  // 0 = none
  int64_t chunk_size = 0;      // 0 = none; not with a window
  float soft_cap = 0;          // c: a scaled score s counts as c * tanh(s / c); 0 = none
  /// float32[1], read when the work runs. If defined, `out` is int8 or float8 and has the same bits
  /// as launch_quantize_static after an attention whose result has the type of q.
  const Tensor* out_scale = nullptr;
  const Tensor* sinks = nullptr;  // [heads], type of q: one more score of each head
  /// float32[heads, >= positions of any request]: these are added to the products of queries and
  /// keys before the multiplication with `scale`.
  const Tensor* biases = nullptr;
  /// Each token sees all positions of its request; with a sliding window, those whose distance from
  /// the token's own position is less than sliding_window, before and after it.
  bool is_bidirectional = false;
  /// The kernels to use. nullptr: the kernels for any batch.
  const AttentionPath* path = nullptr;
  CacheScales scales = {};  // of caches of eight bits
};

/// The bits of a row depend only on its query and its context: not on the batch, on the block size,
/// or on the division of its prompt into steps. One exception: if a plan divides the context of the
/// request into parts (attention_plan.h), the bits also depend on this division. An attention with
/// a plan takes two launches. Without a plan, every context is divided into segments at fixed
/// positions (attention_segments.h). If the path has memory for the sums of segments, several
/// workers compute the segments of one row, with the same bits.
///
/// For latent attention, key_cache and value_cache are the same tensor with one key/value head. A
/// row of the cache begins with the value, and `out` has the size of the value.
bool launch_attention(device::Stream& stream,
                      const KernelTable& kernels,
                      const AttentionCall& call);

/// Makes the call of any op of attention from the operands and attributes of `run`.
[[nodiscard]] AttentionCall attention_call_of(const OpRun& run);

}  // namespace reprise::kernels
