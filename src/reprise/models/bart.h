#pragma once

#include <memory>

#include "reprise/models/cross_attention.h"
#include "reprise/models/decoder.h"
#include "reprise/models/feed_forward.h"
#include "reprise/models/norm.h"
#include "reprise/models/self_attention.h"

namespace reprise::models {

/// The layer of BART's decoder: attention to the answer, attention to the encoder's text and an
/// MLP, each with a norm behind its sum.
class BartLayer final : public DecoderLayer {
 public:
  explicit BartLayer(const LayerParts& parts);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer& attention() noexcept override {
    return self_attention_.attention();
  }
  [[nodiscard]] CrossAttention* cross_attention() noexcept override { return &cross_attention_; }

 private:
  SelfAttention self_attention_;
  Norm attention_result_norm_;
  CrossAttention cross_attention_;
  Norm cross_result_norm_;
  std::unique_ptr<FeedForward> mlp_;
  Norm mlp_result_norm_;
};

}  // namespace reprise::models
