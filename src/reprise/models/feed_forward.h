#pragma once

#include <memory>

#include "reprise/cudagraph/capture/forward_context.h"
#include "reprise/models/layer_parts.h"

namespace reprise::models {

/// The part of a layer that works on each token alone.
class FeedForward {
 public:
  virtual ~FeedForward() = default;
  [[nodiscard]] virtual Tensor operator()(cudagraph::ForwardContext& context,
                                          const Tensor& hidden) const = 0;
};

/// An MLP; or experts, if the config says that this layer has them.
[[nodiscard]] std::unique_ptr<FeedForward> make_feed_forward(const LayerParts& parts);

}  // namespace reprise::models
