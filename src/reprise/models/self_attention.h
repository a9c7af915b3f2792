#pragma once

#include <cstdint>
#include <optional>

#include "reprise/attention/key_value_attention.h"
#include "reprise/models/attention_block.h"
#include "reprise/models/norm.h"

namespace reprise::models {

/// Attention of one layer with its projections, made of the parts that the config asks for.
class SelfAttention final : public AttentionBlock {
 public:
  explicit SelfAttention(const LayerParts& parts);

  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context,
                                  const Tensor& hidden,
                                  const Tensor& positions) const override;

  [[nodiscard]] attention::AttentionLayer& attention() noexcept override { return attention_; }

 private:
  /// The projections of the layer: a layer with q alone reads the keys and values of another layer;
  /// without v, the keys before their norm are the values.
  enum class Projected : uint8_t { q, q_and_k, q_k_and_v };

  struct Values {
    bool has_norm;  // without weights
    int64_t dim;    // elements of a head's value, at most as many as of a key
    float scale;    // scale of values, applied to the result of attention instead
  };
  /// The gates that multiply the results of attention.
  struct Gates {
    bool are_behind_q;  // for each element
    Tensor of_heads;    // [num_heads, hidden]; undefined: none
  };
  struct Norms {
    std::optional<Norm> q;
    std::optional<Norm> k;
    std::optional<HeadNorms> q_heads;  // in place of q, if each head has weights of its own
    std::optional<HeadNorms> k_heads;
  };

  [[nodiscard]] static Projected projected_of(const LayerParts& parts);
  [[nodiscard]] bool has_norm(weights::QkNorm kind) const { return qk_norm_ == kind; }
  void load_qkv(const LayerParts& parts);
  /// v with zeros after the elements of each head, so that heads of k and v have one size, as the
  /// cache and the kernels require.
  [[nodiscard]] Tensor as_wide_as(const Tensor& k, const Tensor& v) const;
  /// The part of attention's results that comes from values, times the scale of values:
  /// [num_tokens, num_heads * values_.dim].
  [[nodiscard]] Tensor of_values(const Tensor& attended) const;
  /// Attention of a layer that reads the keys and values of another one.
  [[nodiscard]] Tensor attend_to_shared(cudagraph::ForwardContext& context,
                                        const Tensor& projected,
                                        const Tensor& positions) const;

  int64_t num_heads_;
  int64_t num_kv_heads_;
  int64_t q_size_;
  int64_t kv_size_;
  weights::QkNorm qk_norm_;
  Projection qkv_;
  Projection o_;
  Norms norms_;
  Tensor rope_table_;        // shared by layers; see LayerParts::rope_table
  Tensor query_rope_table_;  // likewise
  bool rotates_;
  bool norms_rotated_;  // the heads of q and k
  float norm_eps_;
  bool has_unit_qk_norm_;
  Projected projected_;
  Values values_;
  Tensor unit_norm_;  // zeros, which count from one; undefined: none
  Gates gates_;
  float qkv_clip_;  // 0 = none
  attention::KeyValueAttention attention_;
};

}  // namespace reprise::models
