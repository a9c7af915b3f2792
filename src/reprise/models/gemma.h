#pragma once

#include <memory>

#include "reprise/models/decoder.h"
#include "reprise/models/feed_forward.h"
#include "reprise/models/norm.h"
#include "reprise/models/self_attention.h"

namespace reprise::models {

/// The layer of Gemma 2, Gemma 3 and GLM-4: a norm before and a norm behind each of attention and
/// MLP.
class GemmaLayer final : public DecoderLayer {
 public:
  explicit GemmaLayer(const LayerParts& parts);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer& attention() noexcept override {
    return self_attention_.attention();
  }

 private:
  Norm attention_norm_;
  SelfAttention self_attention_;
  Norm attention_result_norm_;
  Norm mlp_norm_;
  std::unique_ptr<FeedForward> mlp_;
  Norm mlp_result_norm_;
};

}  // namespace reprise::models
