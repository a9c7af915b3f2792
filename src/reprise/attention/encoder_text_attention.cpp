#include "reprise/attention/encoder_text_attention.h"

#include "reprise/cudagraph/capture/breakable_capture.h"
#include "reprise/tensor/ops.h"

namespace reprise::attention {

void EncoderTextAttention::write(cudagraph::ForwardContext& context,
                                 const Tensor& k,
                                 const Tensor& v) const {
  ops::kv_write(k,
                v,
                cache()->keys(layer_index()),
                cache()->values(layer_index()),
                context.attention->slot_mapping,
                1.0F,
                1.0F);
}

Tensor EncoderTextAttention::operator()(cudagraph::ForwardContext& context, const Tensor& q) const {
  Tensor out = ops::empty_like(q);
  if (context.attention == nullptr || cache() == nullptr) return out;
  // As in KeyValueAttention, a breakable capture repeats this call with the context of each step.
  cudagraph::split_point(context,
                         {&out, 1},
                         [this, q = q.without_ownership(), out = out.without_ownership()](
                             cudagraph::ForwardContext& step) {
                           ops::encoder_attention(q,
                                                  cache()->keys(layer_index()),
                                                  cache()->values(layer_index()),
                                                  step.attention->query_start_loc,
                                                  step.attention->encoder_lens,
                                                  step.attention->encoder_block_table,
                                                  out,
                                                  shape().scale,
                                                  1.0F,
                                                  1.0F,
                                                  0);
                         });
  return out;
}

}  // namespace reprise::attention
