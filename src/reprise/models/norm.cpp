#include "reprise/models/norm.h"

#include <fmt/format.h>

#include "reprise/base/assert.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

// A tensor for each head, one after the other.
Tensor load_norm_of_each_head(const LayerParts& parts,
                              std::string_view module,
                              int64_t num_heads,
                              const std::vector<int64_t>& order) {
  std::vector<std::string> names;
  Arrangement arrangement;
  for (int64_t head = 0; head < num_heads; ++head) {
    names.push_back(parts.names.in_layer(parts.layer, fmt::format("{}{}.weight", module, head)));
    for (const int64_t element : order) {
      arrangement.rows.push_back(head * parts.config.head_dim + element);
    }
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  return parts.parameters.load_stacked(views, arrangement);
}

// One tensor of [heads, head_dim]. Arrangements move rows, so the tensor is transposed before and
// after.
Tensor load_norm_of_all_heads(const LayerParts& parts,
                              std::string_view module,
                              const std::vector<int64_t>& order) {
  const std::string name = parts.names.in_layer(parts.layer, module) + ".weight";
  if (order.empty()) return parts.parameters.load(name);
  return parts.parameters.load(
      name, {.is_transposed = true, .rows = order, .num_experts = 1, .transposes_each = true});
}

}  // namespace

Norm::Norm(const weights::ModelConfig& config,
           Parameters& parameters,
           const std::string& module,
           const Arrangement& arrangement)
    : type_(config.norm),
      epsilon_(static_cast<float>(config.norm_eps)),
      weight_(parameters.load(module + ".weight", arrangement)) {
  if (config.norm_bias) bias_ = parameters.load(module + ".bias", arrangement);
}

Tensor Norm::operator()(const Tensor& x) const {
  switch (type_) {
    case weights::NormType::rms_norm:
      return ops::rms_norm(x, weight_, epsilon_);
    case weights::NormType::gemma_rms_norm:
      return ops::gemma_rms_norm(x, weight_, epsilon_);
    case weights::NormType::layer_norm:
      break;
  }
  return ops::layer_norm(x, weight_, bias_, epsilon_);
}

HeadNorms::HeadNorms(const LayerParts& parts,
                     std::string_view module,
                     int64_t num_heads,
                     const std::vector<int64_t>& order)
    : num_heads_(num_heads), epsilon_(static_cast<float>(parts.config.norm_eps)) {
  REPRISE_ASSERT(parts.config.norm == weights::NormType::layer_norm,
                 "only LayerNorm has a kernel for weights of each head");
  const Tensor weight = parts.names.has_norm_of_each_head
                            ? load_norm_of_each_head(parts, module, num_heads, order)
                            : load_norm_of_all_heads(parts, module, order);
  weight_ = weight.with_layout({num_heads * parts.config.head_dim}, {1}, 0);
}

Tensor HeadNorms::operator()(const Tensor& x) const {
  return ops::group_norm(x, weight_, OpFunction::layer_norm, epsilon_, num_heads_);
}

}  // namespace reprise::models
