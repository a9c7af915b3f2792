#include <memory>

#include "reprise/models/attention_block.h"
#include "reprise/models/feed_forward.h"
#include "reprise/models/layers.h"
#include "reprise/models/norm.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

class NemotronHLayer final : public DecoderLayer {
 public:
  explicit NemotronHLayer(const LayerParts& parts);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer* attention() noexcept override {
    return mixer_ ? &mixer_->attention() : nullptr;
  }

 private:
  Norm norm_;
  std::unique_ptr<AttentionBlock> mixer_;  // one of the two is there
  std::unique_ptr<FeedForward> mlp_;
};

NemotronHLayer::NemotronHLayer(const LayerParts& parts) : norm_(parts, parts.names.attention_norm) {
  if (parts.config.has_feed_forward(parts.layer)) {
    mlp_ = make_feed_forward(parts);
  } else {
    mixer_ = make_attention_block(parts);
  }
}

Tensor NemotronHLayer::forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const {
  const Tensor normed = norm_(hidden);
  return ops::add(hidden,
                  mixer_ ? (*mixer_)(context, normed, positions) : (*mlp_)(context, normed));
}

}  // namespace

std::unique_ptr<DecoderLayer> make_nemotron_h_layer(const LayerParts& parts) {
  return std::make_unique<NemotronHLayer>(parts);
}

}  // namespace reprise::models
