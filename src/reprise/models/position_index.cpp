#include "reprise/models/position_index.h"

#include <string>
#include <utility>
#include <vector>

#include "reprise/models/projection.h"
#include "reprise/models/qkv_rows.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

// The norm of keys does not follow `rms_norm_eps`. Source: transformers, modeling_deepseek_v32.py.
constexpr float kKeyNormEpsilon = 1e-6F;

// The order of the elements of heads: those that rotate come in the order of the op `rope`
// (decision 28).
std::vector<int64_t> rows_of_heads(const LayerParts& parts, int64_t num_heads) {
  const weights::PositionIndexConfig& sizes = *parts.config.mla->index;
  weights::RopeParameters rope = parts.config.rope;
  rope.is_interleaved = sizes.is_interleaved;
  std::vector<int64_t> order = rotated_head_order(rope, parts.config.mla->qk_rope_head_dim);
  for (int64_t i = std::ssize(order); i < sizes.head_dim; ++i) order.push_back(i);
  std::vector<int64_t> rows;
  for (int64_t head = 0; head < num_heads; ++head) {
    for (const int64_t element : order) rows.push_back(head * sizes.head_dim + element);
  }
  return rows;
}

}  // namespace

PositionIndex::PositionIndex(const LayerParts& parts)
    : sizes_(*parts.config.mla->index),
      rotated_size_(parts.config.mla->qk_rope_head_dim),
      rope_table_(parts.rope_table) {
  const weights::DecoderTensors& names = parts.names;
  const Arrangement of_key{.rows = rows_of_heads(parts, 1)};
  query_weight_ =
      parts.load_projection({names.index_q_b}, {.rows = rows_of_heads(parts, sizes_.num_heads)});
  key_weight_ = parts.load_projection({names.index_k}, of_key);
  const std::string norm = names.in_layer(parts.layer, names.index_k_norm);
  key_norm_ = parts.parameters.load(norm + ".weight", of_key);
  key_norm_bias_ = parts.parameters.load(norm + ".bias", of_key);
  head_weights_ = parts.load_projection({names.index_weights});
}

attention::LatentAttention::Index PositionIndex::operator()(const Tensor& hidden,
                                                            const Tensor& query_latent,
                                                            const Tensor& positions) const {
  const auto rotated = [&](const Tensor& heads) { return ops::slice(heads, 2, 0, rotated_size_); };
  const auto rest = [&](const Tensor& heads) {
    return ops::slice(heads, 2, rotated_size_, sizes_.head_dim - rotated_size_);
  };
  const Tensor q = ops::unflatten(project(query_latent, query_weight_), sizes_.num_heads);
  const Tensor normed =
      ops::layer_norm(project(hidden, key_weight_), key_norm_, key_norm_bias_, kKeyNormEpsilon);
  const Tensor k = ops::unflatten(normed, 1);
  const auto [q_rope, k_rope] = ops::rope(rotated(q), rotated(k), positions, rope_table_);
  // A positive factor that all scores have in common changes no choice, so it is left out.
  return {.q = ops::concat(q_rope, rest(q)),
          .key = ops::concat(k_rope, rest(k)),
          .weights = project(hidden, head_weights_),
          .top_k = sizes_.top_k};
}

}  // namespace reprise::models
