#pragma once

#include <memory>

#include "reprise/models/attention_block.h"
#include "reprise/models/decoder.h"
#include "reprise/models/feed_forward.h"
#include "reprise/models/norm.h"

namespace reprise::models {

/// The layer of Granite, Granite 4 and MiniCPM: what attention and MLP add to the residual is
/// scaled, so that the depth of the model does not change the size of its sums.
class GraniteLayer final : public DecoderLayer {
 public:
  explicit GraniteLayer(const LayerParts& parts);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer& attention() noexcept override {
    return attention_->attention();
  }

 private:
  float residual_scale_;
  Norm attention_norm_;
  std::unique_ptr<AttentionBlock> attention_;
  Norm mlp_norm_;
  std::unique_ptr<FeedForward> mlp_;
};

}  // namespace reprise::models
