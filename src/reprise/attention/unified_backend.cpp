#include <cmath>

#include "reprise/attention/attention_backend.h"
#include "reprise/tensor/ops.h"

namespace reprise::attention {
namespace {

class UnifiedBackend final : public AttentionBackend {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "UNIFIED"; }
  [[nodiscard]] cudagraph::AttentionCGSupport cudagraph_support() const noexcept override {
    return cudagraph::AttentionCGSupport::ALWAYS;
  }

  void forward(const AttentionShape& shape,
               const Tensor& q,
               const Tensor& key_cache,
               const Tensor& value_cache,
               const AttentionMetadata& metadata,
               const Tensor& out) const override {
    ops::attention(q,
                   key_cache,
                   value_cache,
                   {.query_start_loc = metadata.query_start_loc,
                    .seq_lens = metadata.seq_lens,
                    .block_table = metadata.block_table,
                    .scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim)),
                    .sliding_window = shape.sliding_window},
                   out);
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> create_unified_backend() { return std::make_unique<UnifiedBackend>(); }

}  // namespace reprise::attention
