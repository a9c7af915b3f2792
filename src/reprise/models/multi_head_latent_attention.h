#pragma once

#include <cstdint>
#include <optional>

#include "reprise/attention/latent_attention.h"
#include "reprise/models/attention_block.h"
#include "reprise/models/position_index.h"
#include "reprise/models/projection.h"

namespace reprise::models {

/// Multi-head latent attention. Source: DeepSeek-V2 (2024), section 2.1, in the absorbed form: the
/// matrix that makes keys from the latent is applied to the queries, and the matrix that makes
/// values to the results of attention. So keys and values are never made, and the cache holds
/// latents.
class MultiHeadLatentAttention final : public AttentionBlock {
 public:
  explicit MultiHeadLatentAttention(const LayerParts& parts);

  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context,
                                  const Tensor& hidden,
                                  const Tensor& positions) const override;

  [[nodiscard]] attention::AttentionLayer& attention() noexcept override { return attention_; }

 private:
  [[nodiscard]] bool has_query_latent() const noexcept { return sizes_.q_lora_rank > 0; }
  [[nodiscard]] int64_t query_columns() const noexcept;
  /// Queries times the factors of their positions. Source: transformers, modeling_mistral4.py.
  [[nodiscard]] Tensor grow_by_position(const Tensor& q,
                                        const Tensor& key,
                                        const Tensor& positions) const;

  weights::LatentAttentionConfig sizes_;
  int64_t num_heads_;
  Tensor query_and_latent_weight_;  // [queries or their latent | latent | rotated key, hidden]
  // Undefined, like the next member, if queries have no latent.
  Tensor query_norm_;
  Tensor query_weight_;                 // [num_heads * qk_head_dim, q_lora_rank]
  Tensor latent_norm_;                  // [kv_lora_rank]
  Tensor key_weight_;                   // [num_heads, kv_lora_rank, qk_nope_head_dim]
  Tensor value_weight_;                 // [num_heads, v_head_dim, kv_lora_rank]
  std::optional<PositionIndex> index_;  // nothing: tokens see all positions
  Projection o_;
  Tensor rope_table_;     // shared by layers
  Tensor query_factors_;  // also shared by layers; undefined: queries do not grow with the position
  attention::LatentAttention attention_;
};

}  // namespace reprise::models
