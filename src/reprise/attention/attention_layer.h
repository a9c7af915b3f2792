#pragma once

#include <cstdint>

#include "reprise/attention/attention_metadata.h"
#include "reprise/cudagraph/capture/forward_context.h"
#include "reprise/kv_cache/tensors/kv_cache_tensors.h"
#include "reprise/tensor/tensor.h"

namespace reprise::attention {

/// The constants of one attention layer.
struct AttentionShape {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t sliding_window = 0;  // 0 = none
  float scale = 0;             // of scores; 0: 1 / sqrt(head_dim)
  float soft_cap = 0;          // of scaled scores; 0: none
};

/// The attention of one layer. It writes this step's keys and values to the cache, then computes
/// attention with the path that the AttentionBackend chose for this step. The write is part of the
/// captured piece; only attention itself is a split point.
class AttentionLayer {
 public:
  /// \pre bind_cache before the first call.
  AttentionLayer(const AttentionShape& shape, int64_t layer_index);

  /// Sets the cache. Its size is known only after the model exists. `cache` must outlive the layer.
  void bind_cache(const kv_cache::KvCacheTensors* cache) noexcept { cache_ = cache; }

  /// Returns the attention of q. In a profile run there is no cache or no metadata: then attention
  /// is not computed and the result is uninitialised, because only the memory of the other work is
  /// measured.
  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context,
                                  const Tensor& q,         // [num_tokens, num_heads, head_dim]
                                  const Tensor& k,         // [num_tokens, num_kv_heads, head_dim]
                                  const Tensor& v) const;  // same shape as k

  [[nodiscard]] const AttentionShape& shape() const noexcept { return shape_; }

 private:
  AttentionShape shape_;
  int64_t layer_index_;
  const kv_cache::KvCacheTensors* cache_ = nullptr;
};

}  // namespace reprise::attention
