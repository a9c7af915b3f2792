#pragma once

#include <cstdint>

#include "reprise/attention/attention_layer.h"
#include "reprise/attention/attention_metadata.h"
#include "reprise/cudagraph/capture/forward_context.h"
#include "reprise/tensor/tensor.h"

namespace reprise::attention {

/// Attention over cached keys and values.
class KeyValueAttention final : public AttentionLayer {
 public:
  /// `sinks`: [num_heads], one more score of each head, whose value is zero; undefined: none.
  /// `biases`: float32[num_heads, positions], added to the products of queries and keys before they
  /// are scaled; undefined: none. A layer with sinks, with biases or in both directions has none of
  /// the other two, no soft cap and no chunks.
  KeyValueAttention(const AttentionShape& shape,
                    int64_t layer_index,
                    Tensor sinks = {},
                    Tensor biases = {});

  /// Returns the attention of q, after k and v are written to the cache. Without k and v, another
  /// layer has written this layer's part of the cache in the same step. In a profile run there is
  /// no cache or no metadata: then attention is not computed and the result is uninitialised,
  /// because only the memory of the other work is measured.
  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context,
                                  const Tensor& q,         // [num_tokens, num_heads, head_dim]
                                  const Tensor& k,         // [num_tokens, num_kv_heads, head_dim]
                                  const Tensor& v) const;  // same shape as k

 private:
  struct Scales {
    float k = 1;
    float v = 1;
  };
  // The scales of the layer's shape if the cache is a float8 cache without scales in its rows.
  [[nodiscard]] Scales scales_of_cache() const;
  void attend(const AttentionMetadata& step, const Tensor& q, const Tensor& out) const;

  Tensor sinks_;
  Tensor biases_;
};

}  // namespace reprise::attention
