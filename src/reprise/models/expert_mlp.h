#pragma once

#include <optional>
#include <utility>

#include "reprise/models/feed_forward.h"
#include "reprise/models/norm.h"

namespace reprise::models {

/// A mixture of experts: each token runs through the `top_k` MLPs that its router prefers,
/// and perhaps through a shared one. All shapes follow from the number of tokens, so that a graph
/// serves every choice of experts. If the experts are divided among ranks, each rank computes its
/// own experts, and the sum over ranks adds the others.
class ExpertMlp final : public FeedForward {
 public:
  explicit ExpertMlp(const LayerParts& parts);

  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context,
                                  const Tensor& hidden) const override;

 private:
  /// Further parts of experts that work beside an MLP: a norm before the router, the norm of the
  /// experts' input, and a factor of each expert's weight.
  struct PartsBesideMlp {
    explicit PartsBesideMlp(const LayerParts& parts);

    float epsilon;
    Tensor router_scale;
    Tensor expert_scales;  // [experts]
    Norm norm;
  };
  struct LatentProjections {
    Projection in;
    Projection out;
  };

  /// See limited_silu_and_mul(); 0: none.
  struct Limits {
    double of_experts;
    double of_shared;
  };

  [[nodiscard]] Tensor run_experts(const Tensor& hidden) const;
  /// The same, if the experts are divided among several engines.
  [[nodiscard]] Tensor run_for_engines(const Tensor& hidden) const;
  [[nodiscard]] Tensor router_logits(const Tensor& hidden) const;
  /// Whether experts are chosen by softmax scores of all experts, without groups and without a
  /// bias.
  [[nodiscard]] bool is_plain_softmax() const noexcept {
    return routing_.scores == weights::RouterScores::softmax && routing_.groups == 1;
  }
  /// The weights and the numbers of each token's experts.
  [[nodiscard]] std::pair<Tensor, Tensor> route(const Tensor& logits) const;
  [[nodiscard]] Tensor activate(const Tensor& up) const;
  [[nodiscard]] Tensor shared(const Tensor& hidden) const;
  void load_shared(const LayerParts& parts);

  weights::Activation activation_;
  weights::MixtureOfExperts routing_;
  Limits limits_;
  std::optional<PartsBesideMlp> beside_mlp_;
  std::optional<LatentProjections> latent_;  // nothing: experts read and write hidden states
  int64_t ranks_;                            // number of ranks whose results are added
  Tensor router_;                            // [experts, hidden]
  // [experts, 1, hidden]: factors of the experts' input; undefined: none.
  Tensor router_rows_;
  Tensor router_bias_;  // float32[experts], of the choice; undefined: none
  // [experts], bias of the logits; undefined: none. The next two may be undefined too.
  Tensor router_weight_bias_;
  /// [experts of this rank, rows of gate and up, hidden], or packed. Experts without gates have
  /// only up.
  Tensor gate_up_;
  Tensor gate_up_bias_;    // [experts, 2 * intermediate]
  Tensor down_;            // [experts, hidden, intermediate], or packed
  Tensor down_bias_;       // [experts, hidden]
  Tensor shared_gate_up_;  // [rows of gate and up, hidden]; undefined: no shared expert
  Tensor shared_down_;
  Tensor shared_gate_;  // [1, hidden]; undefined: none
  // See ExpertCounting.
  const CustomOp* counter_ = nullptr;  // nullptr: nothing is counted
  Tensor num_tokens_;
  Tensor counts_;
};

}  // namespace reprise::models
