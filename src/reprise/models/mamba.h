#pragma once

#include <memory>

#include "reprise/models/attention_block.h"
#include "reprise/models/decoder.h"
#include "reprise/models/norm.h"

namespace reprise::models {

/// The layer of Mamba and Mamba-2: the recurrence does the work of attention and MLP.
class MambaLayer final : public DecoderLayer {
 public:
  explicit MambaLayer(const LayerParts& parts);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer& attention() noexcept override {
    return mixer_->attention();
  }

 private:
  Norm norm_;
  std::unique_ptr<AttentionBlock> mixer_;
};

}  // namespace reprise::models
