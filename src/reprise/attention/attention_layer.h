#pragma once

#include <cstdint>

#include "reprise/attention/attention_metadata.h"
#include "reprise/cudagraph/capture/forward_context.h"
#include "reprise/kv_cache/tensors/kv_cache_tensors.h"
#include "reprise/tensor/tensor.h"

namespace reprise::attention {

/// Constants of one attention layer.
struct AttentionShape {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t sliding_window = 0;  // 0 = none
  float scale = 0;             // of scores; 0: 1 / sqrt(head_dim)
  float soft_cap = 0;          // of scaled scores; 0: none
};

/// Attention of one layer, as a model calls it: writes this step's keys and values to the cache,
/// then computes attention with the path that the step's executor was given (see
/// AttentionBackend). The write stays in the captured piece; attention itself is the split point.
class AttentionLayer {
 public:
  /// \pre bind_cache before the first call.
  AttentionLayer(const AttentionShape& shape, int64_t layer_index);

  /// Binds the cache, which exists only after its size is known; `cache` must outlive the layer.
  void bind_cache(const kv_cache::KvCacheTensors* cache) noexcept { cache_ = cache; }

  /// Without a cache or metadata (a profile run) attention is not computed and the result is
  /// undefined memory: such a run measures only the work around attention.
  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context,
                                  const Tensor& q,         // [num_tokens, num_heads, head_dim]
                                  const Tensor& k,         // [num_tokens, num_kv_heads, head_dim]
                                  const Tensor& v) const;  // like k

  [[nodiscard]] const AttentionShape& shape() const noexcept { return shape_; }

 private:
  AttentionShape shape_;
  int64_t layer_index_;
  const kv_cache::KvCacheTensors* cache_ = nullptr;
};

}  // namespace reprise::attention
