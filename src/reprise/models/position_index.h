#pragma once

#include <cstdint>

#include "reprise/attention/latent_attention.h"
#include "reprise/models/layer_parts.h"

namespace reprise::models {

/// The indexer of sparse attention: with small queries and keys of its own, a token chooses the
/// positions that it sees. Source: DeepSeek-V3.2-Exp (2025), section 2.1, without the Hadamard
/// transform and float8, as in transformers, modeling_deepseek_v32.py.
class PositionIndex {
 public:
  /// \pre parts.config.mla->index
  explicit PositionIndex(const LayerParts& parts);

  [[nodiscard]] attention::LatentAttention::Index operator()(
      const Tensor& hidden,
      const Tensor& query_latent,  // [num_tokens, q_lora_rank], normed
      const Tensor& positions) const;

 private:
  weights::PositionIndexConfig sizes_;
  int64_t rotated_size_;  // number of rotated elements, the first ones of each query and key
  Tensor query_weight_;   // [heads * head_dim, q_lora_rank]
  Tensor key_weight_;     // [head_dim, hidden]
  Tensor key_norm_;       // [head_dim], of a LayerNorm
  Tensor key_norm_bias_;
  Tensor head_weights_;  // [heads, hidden]
  Tensor rope_table_;    // shared by layers
};

}  // namespace reprise::models
