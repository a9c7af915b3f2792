#pragma once

#include <cstdint>

#include "reprise/attention/attention_layer.h"
#include "reprise/cudagraph/capture/forward_context.h"
#include "reprise/tensor/tensor.h"

namespace reprise::attention {

/// The states of one layer of linear attention, and the ops that change them. Each op is a split
/// point: its grid follows from the number of requests, which a PIECEWISE graph does not know. A
/// slot begins with zeros when a request computes its first tokens.
///
/// In a profile run there are no states: then nothing is computed and results are uninitialised,
/// because only the memory of the other work is measured.
class RecurrentLayer final : public AttentionLayer {
 public:
  explicit RecurrentLayer(int64_t layer_index) : AttentionLayer({}, layer_index) {}

  /// silu of the convolution of x over the tokens of each request.
  [[nodiscard]] Tensor convolve(cudagraph::ForwardContext& context,
                                const Tensor& x,            // [num_tokens, channels]
                                const Tensor& weight,       // [channels, 1, kernel]
                                const Tensor& bias) const;  // [channels]; undefined: none

  /// C * the convolution of B * values, where a row of x is [B | C | values].
  [[nodiscard]] Tensor gated_convolve(cudagraph::ForwardContext& context,
                                      const Tensor& x,            // [num_tokens, 3 * channels]
                                      const Tensor& weight,       // [channels, 1, kernel]
                                      const Tensor& bias) const;  // [channels]; undefined: none

  struct SelectiveState {
    Tensor x;        // [num_tokens, heads * head_dim]
    Tensor dt;       // [num_tokens, heads]
    Tensor b;        // [num_tokens, groups * state_size]
    Tensor c;        // like b
    Tensor a_log;    // float32[heads], or [heads, state_size]
    Tensor d;        // float32[heads]
    Tensor dt_bias;  // float32[heads]
  };
  /// The recurrence of Mamba-1 and Mamba-2; see the op selective_state_update. The result has the
  /// shape of x.
  [[nodiscard]] Tensor selective_scan(cudagraph::ForwardContext& context,
                                      const SelectiveState& in) const;

  struct DeltaRule {
    Tensor q;                // [num_tokens, groups * key_dim]
    Tensor k;                // like q
    Tensor v;                // [num_tokens, heads * value_dim]
    Tensor beta;             // [num_tokens, heads]
    Tensor dt;               // [num_tokens, heads], or [num_tokens, heads * key_dim]
    Tensor a_log;            // float32[heads]
    Tensor dt_bias;          // float32, with as many numbers as a row of dt
    int64_t neighbours = 1;  // the number of neighbouring heads that share q and k
  };
  /// The recurrence of a gated delta net; see the op gated_delta_rule. The result has the shape of
  /// v.
  [[nodiscard]] Tensor delta_scan(cudagraph::ForwardContext& context, const DeltaRule& in) const;

 private:
  template <typename Op>
  [[nodiscard]] Tensor convolve_with(const Op& op,
                                     cudagraph::ForwardContext& context,
                                     const Tensor& x,
                                     const Tensor& weight,
                                     const Tensor& bias) const;
  [[nodiscard]] bool is_profiled(const cudagraph::ForwardContext& context) const noexcept;
};

}  // namespace reprise::attention
