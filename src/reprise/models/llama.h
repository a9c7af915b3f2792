#pragma once

#include <memory>
#include <optional>

#include "reprise/models/attention_block.h"
#include "reprise/models/decoder.h"
#include "reprise/models/feed_forward.h"
#include "reprise/models/norm.h"

namespace reprise::models {

/// The layer of Llama, and of all decoders with a norm before attention and a norm before the MLP:
/// Mistral (sliding window), Qwen2 (bias on q, k and v), Qwen3 (norms of q and k), Phi-3 (fused
/// projections), SmolLM3 (layers without rotation), GPT-2 and OPT (LayerNorm, no gate, learned
/// positions), mixtures of experts (another feed-forward part), DeepSeek (latent attention), and
/// encoders such as ModernBERT.
class LlamaLayer final : public DecoderLayer {
 public:
  explicit LlamaLayer(const LayerParts& parts);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer& attention() noexcept override {
    return attention_->attention();
  }

 private:
  std::optional<Norm> attention_norm_;  // nothing: the layer reads its input as it is
  std::unique_ptr<AttentionBlock> attention_;
  Norm mlp_norm_;
  std::unique_ptr<FeedForward> mlp_;
};

}  // namespace reprise::models
