#include <memory>

#include "reprise/models/attention_block.h"
#include "reprise/models/layers.h"
#include "reprise/models/norm.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

class MambaLayer final : public DecoderLayer {
 public:
  explicit MambaLayer(const LayerParts& parts);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer* attention() noexcept override {
    return &mixer_->attention();
  }

 private:
  Norm norm_;
  std::unique_ptr<AttentionBlock> mixer_;
};

MambaLayer::MambaLayer(const LayerParts& parts)
    : norm_(parts, parts.names.attention_norm), mixer_(make_attention_block(parts)) {}

Tensor MambaLayer::forward(cudagraph::ForwardContext& context,
                           const Tensor& hidden,
                           const Tensor& positions) const {
  return ops::add(hidden, (*mixer_)(context, norm_(hidden), positions));
}

}  // namespace

std::unique_ptr<DecoderLayer> make_mamba_layer(const LayerParts& parts) {
  return std::make_unique<MambaLayer>(parts);
}

}  // namespace reprise::models
