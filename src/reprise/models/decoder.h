#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "reprise/models/causal_lm.h"
#include "reprise/models/layer_parts.h"
#include "reprise/models/norm.h"

namespace reprise::models {

/// One layer of a decoder. A model file defines how it connects attention, MLP and norms.
class DecoderLayer {
 public:
  virtual ~DecoderLayer() = default;

  [[nodiscard]] virtual Tensor forward(cudagraph::ForwardContext& context,
                                       const Tensor& hidden,
                                       const Tensor& positions) const = 0;
  [[nodiscard]] virtual attention::AttentionLayer& attention() noexcept = 0;
};

using MakeDecoderLayer = std::unique_ptr<DecoderLayer> (*)(const LayerParts& parts);

/// Embedding, layers, norm and logits: what all decoders share.
class Decoder final : public CausalLM {
 public:
  Decoder(const weights::ModelConfig& config,
          int64_t max_positions,
          Parameters& parameters,
          MakeDecoderLayer make_layer);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& input_ids,
                               const Tensor& positions) override;
  [[nodiscard]] Tensor compute_logits(const Tensor& hidden,
                                      const Tensor& logits_indices,
                                      const Tensor& num_logits) override;
  [[nodiscard]] std::span<attention::AttentionLayer* const> attention_layers() override {
    return attention_layers_;
  }

 private:
  int64_t hidden_size_;
  DType dtype_;
  float embedding_scale_;
  float logits_scale_;
  float logits_soft_cap_;  // 0 = none
  Tensor embedding_;
  Tensor position_embedding_;  // undefined = none
  std::vector<std::unique_ptr<DecoderLayer>> layers_;
  std::optional<Norm> norm_;  // has a value once the layers are loaded
  Tensor lm_head_;            // when tied: the embedding itself
  std::vector<attention::AttentionLayer*> attention_layers_;
};

}  // namespace reprise::models
