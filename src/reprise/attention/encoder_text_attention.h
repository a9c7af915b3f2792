#pragma once

#include "reprise/attention/attention_layer.h"
#include "reprise/attention/attention_metadata.h"
#include "reprise/cudagraph/capture/forward_context.h"
#include "reprise/tensor/tensor.h"

namespace reprise::attention {

/// Attention of a decoder's tokens to the text of their request's encoder (cross attention). The
/// keys and values lie in blocks of the same cache, which belong to the request and are written
/// once, before its first step. A step only reads them.
class EncoderTextAttention final : public AttentionLayer {
 public:
  EncoderTextAttention(const AttentionShape& shape, int64_t layer_index)
      : AttentionLayer(shape, layer_index) {}

  /// Writes to the slots of the context's metadata, which are those of the text.
  void write(cudagraph::ForwardContext& context, const Tensor& k, const Tensor& v) const;
  /// Each token sees the whole text: AttentionMetadata::encoder_lens, encoder_block_table.
  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context, const Tensor& q) const;
};

}  // namespace reprise::attention
