#pragma once

#include <optional>

#include "reprise/attention/attention_layer.h"
#include "reprise/cudagraph/capture/forward_context.h"
#include "reprise/models/layer_parts.h"
#include "reprise/models/norm.h"

namespace reprise::models {

/// Attention of one layer with its projections: the parts that the config asks for.
class SelfAttention {
 public:
  explicit SelfAttention(const LayerParts& parts);

  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context,
                                  const Tensor& hidden,
                                  const Tensor& positions) const;

  [[nodiscard]] attention::AttentionLayer& attention() noexcept { return attention_; }

 private:
  [[nodiscard]] bool has_norm(weights::QkNorm kind) const { return qk_norm_ == kind; }

  int64_t num_heads_;
  int64_t num_kv_heads_;
  int64_t q_size_;
  int64_t kv_size_;
  weights::QkNorm qk_norm_;
  Tensor qkv_weight_;
  Tensor qkv_bias_;  // undefined = none
  Tensor o_weight_;
  Tensor o_bias_;  // undefined = none
  std::optional<Norm> q_norm_;
  std::optional<Norm> k_norm_;
  Tensor rope_table_;  // shared by layers; undefined: this layer does not rotate
  attention::AttentionLayer attention_;
};

}  // namespace reprise::models
