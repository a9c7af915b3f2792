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
  // Allocated here, inside the piece: the work at the split point may only write to memory that the
  // next piece was recorded to read.
  Tensor out = ops::empty_like(q);
  if (context.attention == nullptr || cache_ == nullptr) return out;

  const Tensor& keys = cache_->keys(layer_index_);
  const Tensor& values = cache_->values(layer_index_);
  ops::kv_write(k, v, keys, values, context.attention->slot_mapping);
  // A breakable capture stores this call. It holds addresses without ownership, and takes each
  // step's metadata from the context of that step.
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
