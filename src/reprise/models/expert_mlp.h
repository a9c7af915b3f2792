#pragma once

#include "reprise/models/feed_forward.h"

namespace reprise::models {

/// A mixture of experts: each token runs through the `top_k` gated MLPs that its router prefers,
/// and perhaps through a shared one. All shapes follow from the number of tokens, so that a graph
/// serves every choice of experts.
class ExpertMlp final : public FeedForward {
 public:
  explicit ExpertMlp(const LayerParts& parts);

  [[nodiscard]] Tensor operator()(const Tensor& hidden) const override;

 private:
  [[nodiscard]] Tensor shared(const Tensor& hidden) const;

  weights::Activation activation_;
  int64_t top_k_;
  bool renormalises_;
  Tensor router_;          // [experts, hidden]
  Tensor gate_up_;         // [experts, 2 * intermediate, hidden]
  Tensor down_;            // [experts, hidden, intermediate]
  Tensor shared_gate_up_;  // [2 * shared intermediate, hidden]; undefined: no shared expert
  Tensor shared_down_;
  Tensor shared_gate_;  // [1, hidden]
};

}  // namespace reprise::models
