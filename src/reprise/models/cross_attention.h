#pragma once

#include "reprise/attention/encoder_text_attention.h"
#include "reprise/models/layer_parts.h"

namespace reprise::models {

/// Attention of a decoder's layer to the text of the encoder, with its projections.
class CrossAttention {
 public:
  explicit CrossAttention(const LayerParts& parts);

  /// Writes the keys and values of this layer for the encoder's last hidden states.
  void write(cudagraph::ForwardContext& context, const Tensor& encoded) const;
  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context, const Tensor& hidden) const;

  [[nodiscard]] attention::AttentionLayer& attention() noexcept { return attention_; }

 private:
  int64_t num_heads_;
  int64_t size_;  // of q, k and v
  Projection q_;
  Projection kv_;  // k, then v
  Projection o_;
  attention::EncoderTextAttention attention_;
};

}  // namespace reprise::models
