#pragma once

#include <cstdint>

#include "reprise/attention/attention_layer.h"
#include "reprise/cudagraph/capture/forward_context.h"
#include "reprise/tensor/tensor.h"

namespace reprise::attention {

/// Multi-head latent attention (MLA) over cached latents. All heads share one row for each
/// position, the latent and the rotated key; shape().value_dim is the size of the latent. Queries
/// and results are in the space of the latent ("absorbed"), for prompts as for decode: so the bits
/// of a token do not depend on how its prompt is divided (docs/adr/0032).
class LatentAttention final : public AttentionLayer {
 public:
  LatentAttention(const AttentionShape& shape, int64_t layer_index)
      : AttentionLayer(shape, layer_index) {}

  /// A token sees the top_k positions whose index keys score best with its q and weights. The
  /// cache has each index key behind its rotated key. Undefined tensors: a token sees all
  /// positions.
  struct Index {
    Tensor q;           // [num_tokens, index heads, size of an index key]
    Tensor key;         // [num_tokens, 1, size of an index key]
    Tensor weights;     // [num_tokens, index heads]
    int64_t top_k = 0;  // positions that a token sees
  };

  /// Returns the attention of q, [num_tokens, num_heads, size of the latent]. In a profile run the
  /// result is uninitialised, like that of KeyValueAttention.
  [[nodiscard]] Tensor operator()(
      cudagraph::ForwardContext& context,
      const Tensor& q_latent,  // [num_tokens, num_heads, size of the latent]
      const Tensor& q_rope,    // [num_tokens, num_heads, size of the rotated key]
      const Tensor& latent,    // [num_tokens, size of the latent]
      const Tensor& k_rope,    // [num_tokens, 1, size of the rotated key]
      const Index& index) const;
};

}  // namespace reprise::attention
