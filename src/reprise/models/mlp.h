#pragma once

#include <string_view>

#include "reprise/models/feed_forward.h"

namespace reprise::models {

/// act(gate(x)) * up(x), of which `gate_up` holds gate, then up.
[[nodiscard]] Tensor activate_and_mul(weights::Activation activation, const Tensor& gate_up);

/// The same for silu, where silu(gate) is at most `limit` and up lies between -limit and limit.
[[nodiscard]] Tensor limited_silu_and_mul(const Tensor& gate_up, double limit);

/// act(x), for an MLP without a gate.
[[nodiscard]] Tensor activate(weights::Activation activation, const Tensor& x);

/// down(act(gate(x)) * up(x)), or down(act(up(x))) where the config has no gate.
class Mlp final : public FeedForward {
 public:
  explicit Mlp(const LayerParts& parts);

  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context,
                                  const Tensor& hidden) const override;

 private:
  weights::Activation activation_;
  bool is_gated_;
  float gate_scale_;  // of what silu takes; 1: it takes the gate as it is
  double limit_;      // see limited_silu_and_mul(); 0: none
  Projection up_;     // gate, then up, if there is a gate
  Projection down_;
};

}  // namespace reprise::models
