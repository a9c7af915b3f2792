#include "reprise/attention/latent_attention.h"

#include "reprise/attention/attention_metadata.h"
#include "reprise/cudagraph/capture/breakable_capture.h"
#include "reprise/tensor/ops.h"

namespace reprise::attention {

Tensor LatentAttention::operator()(cudagraph::ForwardContext& context,
                                   const Tensor& q_latent,
                                   const Tensor& q_rope,
                                   const Tensor& latent,
                                   const Tensor& k_rope,
                                   const Index& index) const {
  const Tensor q = ops::concat(q_latent, q_rope);
  // See KeyValueAttention for the place of `out` and for what the split point keeps.
  Tensor out = ops::empty_like(q_latent);
  if (context.attention == nullptr || cache() == nullptr) return out;

  const Tensor& latents = cache()->keys(layer_index());
  const Tensor key = index.key.defined() ? ops::concat(k_rope, index.key) : k_rope;
  ops::concat_and_cache_mla(latent, key, latents, context.attention->slot_mapping);
  cudagraph::split_point(context,
                         {&out, 1},
                         [this,
                          q = q.without_ownership(),
                          latents,
                          index_q = index.q.without_ownership(),
                          index_weights = index.weights.without_ownership(),
                          top_k = index.top_k,
                          out = out.without_ownership()](cudagraph::ForwardContext& step) {
                           ops::mla_attention(q,
                                              latents,
                                              step.attention->query_start_loc,
                                              step.attention->seq_lens,
                                              step.attention->block_table,
                                              out,
                                              index_q,
                                              index_weights,
                                              shape().scale,
                                              top_k);
                         });
  return out;
}

}  // namespace reprise::attention
