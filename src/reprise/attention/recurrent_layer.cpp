#include "reprise/attention/recurrent_layer.h"

#include "reprise/attention/attention_metadata.h"
#include "reprise/cudagraph/capture/breakable_capture.h"
#include "reprise/tensor/ops.h"

namespace reprise::attention {

// A breakable capture stores the calls below and repeats them in each replay. So their tensors do
// not own their memory, and the metadata comes from the context of the current step.

bool RecurrentLayer::is_profiled(const cudagraph::ForwardContext& context) const noexcept {
  return context.attention == nullptr || states() == nullptr;
}

// `op`: ops::causal_conv1d or ops::short_conv. Both have the same operands.
template <typename Op>
Tensor RecurrentLayer::convolve_with(const Op& op,
                                     cudagraph::ForwardContext& context,
                                     const Tensor& x,
                                     const Tensor& weight,
                                     const Tensor& bias) const {
  const int64_t channels = weight.size(0);
  Tensor out = ops::empty_like(x.size(1) == channels ? x : ops::slice(x, 1, 0, channels));
  if (is_profiled(context)) return out;
  cudagraph::split_point(
      context,
      {&out, 1},
      [op,
       state = states()->conv(layer_index()),
       x = x.without_ownership(),
       weight,
       bias,
       out = out.without_ownership()](cudagraph::ForwardContext& step) {
        const AttentionMetadata& batch = *step.attention;
        op(x, weight, bias, state, batch.state_indices, batch.query_start_loc, batch.seq_lens, out);
      });
  return out;
}

Tensor RecurrentLayer::convolve(cudagraph::ForwardContext& context,
                                const Tensor& x,
                                const Tensor& weight,
                                const Tensor& bias) const {
  return convolve_with(ops::causal_conv1d, context, x, weight, bias);
}

Tensor RecurrentLayer::gated_convolve(cudagraph::ForwardContext& context,
                                      const Tensor& x,
                                      const Tensor& weight,
                                      const Tensor& bias) const {
  return convolve_with(ops::short_conv, context, x, weight, bias);
}

Tensor RecurrentLayer::selective_scan(cudagraph::ForwardContext& context,
                                      const SelectiveState& in) const {
  Tensor out = ops::empty_like(in.x);
  if (is_profiled(context)) return out;
  const SelectiveState kept = {.x = in.x.without_ownership(),
                               .dt = in.dt.without_ownership(),
                               .b = in.b.without_ownership(),
                               .c = in.c.without_ownership(),
                               .a_log = in.a_log,
                               .d = in.d,
                               .dt_bias = in.dt_bias};
  cudagraph::split_point(context,
                         {&out, 1},
                         [state = states()->heads(layer_index()),
                          kept,
                          out = out.without_ownership()](cudagraph::ForwardContext& step) {
                           const AttentionMetadata& batch = *step.attention;
                           ops::selective_state_update(kept.x,
                                                       kept.dt,
                                                       kept.b,
                                                       kept.c,
                                                       kept.a_log,
                                                       kept.d,
                                                       kept.dt_bias,
                                                       state,
                                                       batch.state_indices,
                                                       batch.query_start_loc,
                                                       batch.seq_lens,
                                                       out);
                         });
  return out;
}

Tensor RecurrentLayer::delta_scan(cudagraph::ForwardContext& context, const DeltaRule& in) const {
  Tensor out = ops::empty_like(in.v);
  if (is_profiled(context)) return out;
  const DeltaRule kept = {.q = in.q.without_ownership(),
                          .k = in.k.without_ownership(),
                          .v = in.v.without_ownership(),
                          .beta = in.beta.without_ownership(),
                          .dt = in.dt.without_ownership(),
                          .a_log = in.a_log,
                          .dt_bias = in.dt_bias,
                          .neighbours = in.neighbours};
  cudagraph::split_point(context,
                         {&out, 1},
                         [state = states()->heads(layer_index()),
                          kept,
                          out = out.without_ownership()](cudagraph::ForwardContext& step) {
                           const AttentionMetadata& batch = *step.attention;
                           ops::gated_delta_rule(kept.q,
                                                 kept.k,
                                                 kept.v,
                                                 kept.beta,
                                                 kept.dt,
                                                 kept.a_log,
                                                 kept.dt_bias,
                                                 state,
                                                 batch.state_indices,
                                                 batch.query_start_loc,
                                                 batch.seq_lens,
                                                 out,
                                                 kept.neighbours);
                         });
  return out;
}

}  // namespace reprise::attention
