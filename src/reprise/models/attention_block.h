#pragma once

#include <memory>

#include "reprise/attention/attention_layer.h"
#include "reprise/cudagraph/capture/forward_context.h"
#include "reprise/models/layer_parts.h"

namespace reprise::models {

/// The part of a layer in which tokens read each other, with its projections.
class AttentionBlock {
 public:
  virtual ~AttentionBlock() = default;

  [[nodiscard]] virtual Tensor operator()(cudagraph::ForwardContext& context,
                                          const Tensor& hidden,
                                          const Tensor& positions) const = 0;
  [[nodiscard]] virtual attention::AttentionLayer& attention() noexcept = 0;
};

/// The kind of attention that the config asks for.
[[nodiscard]] std::unique_ptr<AttentionBlock> make_attention_block(const LayerParts& parts);

}  // namespace reprise::models
