#include "reprise/attention/attention_layer.h"

#include <cmath>

#include "reprise/cudagraph/capture/breakable_capture.h"
#include "reprise/tensor/ops.h"

namespace reprise::attention {

AttentionLayer::AttentionLayer(const AttentionShape& shape, int64_t layer_index)
    : shape_(shape), layer_index_(layer_index) {
  if (shape_.scale == 0) shape_.scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_dim));
}

Tensor AttentionLayer::operator()(cudagraph::ForwardContext& context,
                                  const Tensor& q,
                                  const Tensor& k,
                                  const Tensor& v) const {
  // `out` is allocated here, in the piece before the split point. Attention runs eagerly at the
  // split point and must write to the memory that the graph of the next piece reads.
  Tensor out = ops::empty_like(q);
  if (context.attention == nullptr || cache_ == nullptr) return out;

  const Tensor& keys = cache_->keys(layer_index_);
  const Tensor& values = cache_->values(layer_index_);
  ops::kv_write(k, v, keys, values, context.attention->slot_mapping);
  // A breakable capture stores this call and repeats it in each replay. So the tensors do not own
  // their memory, and the metadata comes from the context of the current step.
  cudagraph::split_point(
      context,
      [this, q = q.without_ownership(), keys, values, out = out.without_ownership()](
          cudagraph::ForwardContext& step) {
        ops::attention(q,
                       keys,
                       values,
                       {.query_start_loc = step.attention->query_start_loc,
                        .seq_lens = step.attention->seq_lens,
                        .block_table = step.attention->block_table,
                        .scale = shape_.scale,
                        .sliding_window = shape_.sliding_window,
                        .soft_cap = shape_.soft_cap},
                       out);
      });
  return out;
}

}  // namespace reprise::attention
