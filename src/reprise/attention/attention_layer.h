#pragma once

#include "reprise/attention/attention_backend.h"
#include "reprise/cudagraph/forward_context.h"
#include "reprise/kv_cache/kv_cache_tensors.h"
#include "reprise/tensor/tensor.h"

namespace reprise::attention {

/// Attention of one layer as a model calls it: writes this step's keys and values to the cache, then
/// attends. The write stays in the captured piece; attention itself is the split point.
class AttentionLayer {
 public:
  /// `backend` must outlive the layer. \pre bind_cache before the first call.
  AttentionLayer(const AttentionShape& shape, int64_t layer_index, const AttentionBackend& backend)
      : shape_(shape), layer_index_(layer_index), backend_(&backend) {}

  /// The cache exists only after its size is known; `cache` must outlive the layer.
  void bind_cache(const kv_cache::KvCacheTensors* cache) noexcept { cache_ = cache; }

  /// Without a cache or metadata (a profile run) nothing is attended and the result is undefined
  /// memory: only the work around attention is being measured.
  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context,
                                  const Tensor& q,          // [num_tokens, num_heads, head_dim]
                                  const Tensor& k,          // [num_tokens, num_kv_heads, head_dim]
                                  const Tensor& v) const;   // like k

  [[nodiscard]] const AttentionBackend& backend() const noexcept { return *backend_; }

 private:
  AttentionShape shape_;
  int64_t layer_index_;
  const AttentionBackend* backend_;
  const kv_cache::KvCacheTensors* cache_ = nullptr;
};

}  // namespace reprise::attention
