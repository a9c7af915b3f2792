#include <memory>
#include <optional>

#include "reprise/base/assert.h"
#include "reprise/models/expert_mlp.h"
#include "reprise/models/feed_forward.h"
#include "reprise/models/layer_embedding.h"
#include "reprise/models/layers.h"
#include "reprise/models/mixer_parts.h"
#include "reprise/models/mlp.h"
#include "reprise/models/norm.h"
#include "reprise/models/self_attention.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

/// Experts beside the MLP: both results are normed before they are added.
class ExpertsBesideMlp {
 public:
  explicit ExpertsBesideMlp(const LayerParts& parts)
      : experts_(parts),
        mlp_norm_(parts, parts.names.plain_mlp_result_norm),
        expert_norm_(parts, parts.names.expert_result_norm) {}

  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context,
                                  const Tensor& residual,
                                  const Tensor& transformed) const {
    return ops::add(mlp_norm_(transformed), expert_norm_(experts_(context, residual)));
  }

 private:
  ExpertMlp experts_;
  Norm mlp_norm_;
  Norm expert_norm_;
};

class Gemma4Layer final : public DecoderLayer {
 public:
  explicit Gemma4Layer(const LayerParts& parts);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const override {
    return forward_with(context, hidden, positions, {});
  }
  [[nodiscard]] Tensor forward_with(cudagraph::ForwardContext& context,
                                    const Tensor& hidden,
                                    const Tensor& positions,
                                    const Tensor& layer_input) const override;
  [[nodiscard]] attention::AttentionLayer* attention() noexcept override {
    return &self_attention_.attention();
  }

 private:
  Norm attention_norm_;
  SelfAttention self_attention_;
  Norm attention_result_norm_;
  Norm mlp_norm_;
  std::unique_ptr<FeedForward> mlp_;
  std::optional<ExpertsBesideMlp> experts_;
  Norm mlp_result_norm_;
  std::optional<LayerInput> layer_input_;
  float scalar_;
};

bool has_experts_beside(const LayerParts& parts) {
  return parts.config.is_moe_layer(parts.layer) && parts.config.moe->is_beside_mlp;
}
std::unique_ptr<FeedForward> make_mlp(const LayerParts& parts) {
  return has_experts_beside(parts) ? std::make_unique<Mlp>(parts) : make_feed_forward(parts);
}

Gemma4Layer::Gemma4Layer(const LayerParts& parts)
    : attention_norm_(parts, parts.names.attention_norm),
      self_attention_(parts),
      attention_result_norm_(parts, parts.names.attention_result_norm),
      mlp_norm_(parts, parts.names.mlp_norm),
      mlp_(make_mlp(parts)),
      mlp_result_norm_(parts, parts.names.mlp_result_norm),
      scalar_(
          parts.parameters.find_number(parts.names.in_layer(parts.layer, parts.names.layer_scalar))
              .value_or(1)) {
  if (has_experts_beside(parts)) experts_.emplace(parts);
  if (parts.config.hidden_size_per_layer_input > 0) layer_input_.emplace(parts);
}

Tensor Gemma4Layer::forward_with(cudagraph::ForwardContext& context,
                                 const Tensor& hidden,
                                 const Tensor& positions,
                                 const Tensor& layer_input) const {
  const Tensor attended = self_attention_(context, attention_norm_(hidden), positions);
  Tensor residual = ops::add(hidden, attention_result_norm_(attended));
  Tensor transformed = (*mlp_)(context, mlp_norm_(residual));
  if (experts_) transformed = (*experts_)(context, residual, transformed);
  residual = ops::add(residual, mlp_result_norm_(transformed));
  if (layer_input_) {
    REPRISE_ASSERT(layer_input.defined(), "this layer needs its embedding of each token");
    residual = ops::add(residual, (*layer_input_)(context, residual, layer_input));
  }
  return scaled(residual, scalar_);
}

}  // namespace

std::unique_ptr<DecoderLayer> make_gemma4_layer(const LayerParts& parts) {
  return std::make_unique<Gemma4Layer>(parts);
}

}  // namespace reprise::models
