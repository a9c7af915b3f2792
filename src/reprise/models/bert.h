#pragma once

#include <memory>

#include "reprise/models/decoder.h"
#include "reprise/models/feed_forward.h"
#include "reprise/models/norm.h"
#include "reprise/models/self_attention.h"

namespace reprise::models {

/// The layer of BERT: attention in both directions and an MLP, each with a norm behind its sum.
class BertLayer final : public DecoderLayer {
 public:
  explicit BertLayer(const LayerParts& parts);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer& attention() noexcept override {
    return self_attention_.attention();
  }

 private:
  SelfAttention self_attention_;
  Norm attention_result_norm_;
  std::unique_ptr<FeedForward> mlp_;
  Norm mlp_result_norm_;
};

}  // namespace reprise::models
