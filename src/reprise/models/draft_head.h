#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "reprise/models/causal_lm.h"
#include "reprise/models/norm.h"
#include "reprise/weights/config/draft_head_config.h"

namespace reprise::models {

/// One layer that predicts the token after next from hidden states of another model, its target.
///
/// Row t of the input is a token and the target's hidden state of the token before it; the logits
/// are for the token after. ForwardContext::auxiliary gets the hidden states with which a later
/// step continues without the target, in place of the target's.
class DraftHead : public CausalLM {
 public:
  struct Parts;  // from which heads are made

  /// Turns the target's hidden states, one row per token, into the form that forward() reads. The
  /// head's first step reads this form; later steps read the results of an earlier step.
  [[nodiscard]] virtual Tensor combine(const Tensor& features) const { return features; }
  /// The number of columns of the target's hidden states.
  [[nodiscard]] int64_t feature_size() const noexcept { return config_.feature_size(); }
  /// The target's token for each row of logits. Empty: row r is token r.
  [[nodiscard]] const std::vector<int32_t>& target_ids() const noexcept { return target_ids_; }

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& input_ids,
                               const Tensor& positions) final;
  [[nodiscard]] Tensor compute_logits(const Tensor& hidden,
                                      const Tensor& logits_indices,
                                      const Tensor& num_logits) final;
  [[nodiscard]] int64_t hidden_input_size() const final { return config_.model.hidden_size; }
  [[nodiscard]] std::span<attention::AttentionLayer* const> attention_layers() final {
    return attention_layers_;
  }

 protected:
  explicit DraftHead(const Parts& parts);

  /// The attention of the head's only layer. Called once, by the constructor of the head.
  void set_attention(attention::AttentionLayer& layer) { attention_layers_ = {&layer}; }

  /// Returns the hidden states from which logits are computed, and stores those for later steps in
  /// the context.
  [[nodiscard]] virtual Tensor predict(cudagraph::ForwardContext& context,
                                       const Tensor& embedded,
                                       const Tensor& positions) const = 0;

 private:
  weights::DraftHeadConfig config_;
  Tensor embedding_;  // its own, or the target's
  Tensor lm_head_;    // likewise
  std::vector<int32_t> target_ids_;
  std::array<attention::AttentionLayer*, 1> attention_layers_{};
};

/// Loads a head. `parameters`: with a source from weights::with_head_names(). `target`: weights
/// that replace those that the head's checkpoint lacks; their owner must outlive the head.
/// `target_ids`: from weights::read_target_ids(). \throws FileError for tensors that are missing or
/// misshapen
[[nodiscard]] std::unique_ptr<DraftHead> create_draft_head(const weights::DraftHeadConfig& config,
                                                           int64_t max_positions,
                                                           Parameters& parameters,
                                                           const SharedTensors& target,
                                                           std::vector<int32_t> target_ids);

/// The hidden states that a target must give to this head.
[[nodiscard]] AuxiliaryStates auxiliary_states(const weights::DraftHeadConfig& config);

}  // namespace reprise::models
