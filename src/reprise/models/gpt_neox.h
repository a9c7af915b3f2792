#pragma once

#include <memory>
#include <optional>

#include "reprise/models/decoder.h"
#include "reprise/models/feed_forward.h"
#include "reprise/models/norm.h"
#include "reprise/models/self_attention.h"

namespace reprise::models {

/// The layer of GPT-NeoX, Falcon and some StableLM: attention and MLP read the same residual, and
/// both add to it. The MLP has a norm of its own, or reads the result of the norm before attention.
class GptNeoxLayer final : public DecoderLayer {
 public:
  explicit GptNeoxLayer(const LayerParts& parts);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer& attention() noexcept override {
    return self_attention_.attention();
  }

 private:
  Norm attention_norm_;
  SelfAttention self_attention_;
  std::optional<Norm> mlp_norm_;
  std::unique_ptr<FeedForward> mlp_;
};

/// This layer, or that of Llama where the config switches the parallel residual off.
[[nodiscard]] std::unique_ptr<DecoderLayer> make_gpt_neox_layer(const LayerParts& parts);

}  // namespace reprise::models
