#pragma once

#include <string_view>

#include "reprise/models/feed_forward.h"

namespace reprise::models {

/// act(gate(x)) * up(x). `gate_up` holds the results of gate, then those of up.
[[nodiscard]] Tensor activate_and_mul(weights::Activation activation, const Tensor& gate_up);

/// The same for silu, with silu(gate) limited to at most `limit`, and up limited to -limit to
/// limit.
[[nodiscard]] Tensor limited_silu_and_mul(const Tensor& gate_up, double limit);

/// act(x), for an MLP without a gate.
[[nodiscard]] Tensor activate(weights::Activation activation, const Tensor& x);

/// down(act(gate(x)) * up(x)), or down(act(up(x))) if the config has no gate.
class Mlp final : public FeedForward {
 public:
  explicit Mlp(const LayerParts& parts);

  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context,
                                  const Tensor& hidden) const override;

 private:
  weights::Activation activation_;
  bool is_gated_;
  float gate_scale_;  // factor of silu's input; 1: the gate stays as it is
  double limit_;      // see limited_silu_and_mul(); 0: none
  Projection up_;     // gate, then up, if there is a gate
  Projection down_;
};

}  // namespace reprise::models
