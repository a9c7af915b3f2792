#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "reprise/attention/attention_metadata.h"
#include "reprise/cudagraph/attention_support.h"
#include "reprise/tensor/tensor.h"

namespace reprise::attention {

/// Constants of one attention layer.
struct AttentionShape {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t sliding_window = 0;  // 0 = none
};

/// A way to compute attention over the paged cache, and what of it can be captured. Stateless apart
/// from workspace it was given; one object serves all layers.
class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Declared for what its kernels really do: a support level that is too high corrupts silently.
  [[nodiscard]] virtual cudagraph::AttentionCGSupport cudagraph_support() const noexcept = 0;

  /// Writes attention of `q` over the cache into `out`; both [num_tokens, num_heads, head_dim].
  /// Called inside captures up to the declared support: must not allocate, and must read all that
  /// changes from step to step out of the metadata's tensors.
  virtual void forward(const AttentionShape& shape,
                       const Tensor& q,
                       const Tensor& key_cache,
                       const Tensor& value_cache,
                       const AttentionMetadata& metadata,
                       const Tensor& out) const = 0;
};

/// One routine for every batch (ALWAYS): each token finds its request and its position on the
/// device, so prefill, decode and any mix are the same launch.
[[nodiscard]] std::unique_ptr<AttentionBackend> create_unified_backend();

}  // namespace reprise::attention
