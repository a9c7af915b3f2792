#pragma once

#include <utility>

#include "reprise/models/feed_forward.h"

namespace reprise::models {

/// A mixture of experts: each token runs through the `top_k` gated MLPs that its router prefers,
/// and perhaps through a shared one. All shapes follow from the number of tokens, so that a graph
/// serves every choice of experts. If the experts are divided among ranks, each rank computes its
/// own experts, and the sum over ranks adds the others.
class ExpertMlp final : public FeedForward {
 public:
  explicit ExpertMlp(const LayerParts& parts);

  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context,
                                  const Tensor& hidden) const override;

 private:
  [[nodiscard]] Tensor run_experts(const Tensor& hidden) const;
  /// The same, where each of several engines has some of the experts.
  [[nodiscard]] Tensor run_for_engines(const Tensor& hidden) const;
  /// The weights and the numbers of each token's experts.
  [[nodiscard]] std::pair<Tensor, Tensor> route(const Tensor& logits) const;
  [[nodiscard]] Tensor activate(const Tensor& gate_up) const;
  [[nodiscard]] Tensor shared(const Tensor& hidden) const;

  weights::Activation activation_;
  weights::MixtureOfExperts routing_;
  int64_t ranks_;              // whose results are added
  Tensor router_;              // [experts, hidden]
  Tensor router_rows_;         // [experts, 1, hidden]: for the input of experts; undefined: none
  Tensor router_bias_;         // float32[experts], of the choice; undefined: none
  Tensor router_weight_bias_;  // [experts], of the logits; undefined, like the next two: none
  Tensor gate_up_;             // [experts of this rank, 2 * intermediate, hidden], or packed
  Tensor gate_up_bias_;        // [experts, 2 * intermediate]
  Tensor down_;                // [experts, hidden, intermediate], or packed
  Tensor down_bias_;           // [experts, hidden]
  Tensor shared_gate_up_;      // [2 * shared intermediate, hidden]; undefined: no shared expert
  Tensor shared_down_;
  Tensor shared_gate_;  // [1, hidden]; undefined: none
  // See ExpertCounting.
  const CustomOp* counter_ = nullptr;  // nullptr: nothing is counted
  Tensor num_tokens_;
  Tensor counts_;
};

}  // namespace reprise::models
