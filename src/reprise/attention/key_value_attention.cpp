#include "reprise/attention/key_value_attention.h"

#include <utility>

#include "reprise/base/assert.h"
#include "reprise/cudagraph/capture/breakable_capture.h"
#include "reprise/tensor/ops.h"

namespace reprise::attention {

KeyValueAttention::KeyValueAttention(const AttentionShape& shape,
                                     int64_t layer_index,
                                     Tensor sinks,
                                     Tensor biases)
    : AttentionLayer(shape, layer_index), sinks_(std::move(sinks)), biases_(std::move(biases)) {
  const int num_kinds =
      (sinks_.defined() ? 1 : 0) + (biases_.defined() ? 1 : 0) + (shape.is_bidirectional ? 1 : 0);
  REPRISE_ASSERT(shape.soft_cap == 0 || num_kinds == 0,
                 "layer {}: no kernel supports this kind of attention together with a soft cap",
                 layer_index);
  REPRISE_ASSERT(
      shape.chunk_size == 0 || (shape.sliding_window == 0 && num_kinds == 0),
      "layer {}: no kernel supports this kind of attention together with chunks of positions",
      layer_index);
  REPRISE_ASSERT(num_kinds <= 1,
                 "layer {}: no kernel supports attention with more than one of sinks, biases and "
                 "both directions",
                 layer_index);
}

Tensor KeyValueAttention::operator()(cudagraph::ForwardContext& context,
                                     const Tensor& q,
                                     const Tensor& k,
                                     const Tensor& v) const {
  // `out` is allocated here, in the piece before the split point. Attention runs eagerly at the
  // split point and must write to the memory that the graph of the next piece reads.
  Tensor out = ops::empty_like(q);
  if (context.attention == nullptr || cache() == nullptr) return out;

  if (k.defined()) {
    const Scales scales = scales_of_cache();
    ops::kv_write(k,
                  v,
                  cache()->keys(layer_index()),
                  cache()->values(layer_index()),
                  context.attention->slot_mapping,
                  scales.k,
                  scales.v);
  }
  // A breakable capture stores this call and repeats it in each replay. So the tensors do not own
  // their memory, and the metadata comes from the context of the current step.
  cudagraph::split_point(context,
                         {&out, 1},
                         [this, q = q.without_ownership(), out = out.without_ownership()](
                             cudagraph::ForwardContext& step) { attend(*step.attention, q, out); });
  return out;
}

KeyValueAttention::Scales KeyValueAttention::scales_of_cache() const {
  const kv_cache::KvCacheLayout& layout = cache()->layout();
  if (dtype_bytes(layout.dtype) > 1 || layout.has_row_scales) return {};
  return {.k = shape().k_scale, .v = shape().v_scale};
}

void KeyValueAttention::attend(const AttentionMetadata& step,
                               const Tensor& q,
                               const Tensor& out) const {
  const Tensor& keys = cache()->keys(layer_index());
  const Tensor& values = cache()->values(layer_index());
  const Scales scales = scales_of_cache();
  const auto attend_with = [&](const auto& op, const Tensor& of_heads) {
    op(q,
       keys,
       values,
       step.query_start_loc,
       step.seq_lens,
       step.block_table,
       of_heads,
       out,
       shape().scale,
       scales.k,
       scales.v,
       shape().sliding_window);
  };
  if (sinks_.defined()) return attend_with(ops::attention_with_sinks, sinks_);
  if (biases_.defined()) return attend_with(ops::attention_with_biases, biases_);
  if (shape().is_bidirectional) {
    ops::encoder_attention(q,
                           keys,
                           values,
                           step.query_start_loc,
                           step.seq_lens,
                           step.block_table,
                           out,
                           shape().scale,
                           scales.k,
                           scales.v,
                           shape().sliding_window);
    return;
  }
  ops::attention(q,
                 keys,
                 values,
                 {.query_start_loc = step.query_start_loc,
                  .seq_lens = step.seq_lens,
                  .block_table = step.block_table,
                  .scale = shape().scale,
                  .k_scale = scales.k,
                  .v_scale = scales.v,
                  .sliding_window = shape().sliding_window,
                  .chunk_size = shape().chunk_size,
                  .soft_cap = shape().soft_cap},
                 out);
}

}  // namespace reprise::attention
