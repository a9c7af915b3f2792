#include "reprise/models/layer_parts.h"

#include <vector>

namespace reprise::models {
namespace {

// The names of the tensors `suffix` of modules of a layer.
class TensorNames {
 public:
  TensorNames(const LayerParts& parts,
              std::initializer_list<std::string_view> modules,
              std::string_view suffix) {
    for (const std::string_view module : modules) {
      names_.push_back(parts.names.in_layer(parts.layer, module).append(suffix));
    }
    views_.assign(names_.begin(), names_.end());
  }
  [[nodiscard]] std::span<const std::string_view> views() const { return views_; }

 private:
  std::vector<std::string> names_;
  std::vector<std::string_view> views_;
};

}  // namespace

Tensor LayerParts::load_projection(std::initializer_list<std::string_view> modules,
                                   Arrangement arrangement) const {
  arrangement.is_transposed = names.is_transposed;
  return parameters.load_projection(TensorNames(*this, modules, ".weight").views(), arrangement);
}

Tensor LayerParts::load_bias(bool is_there,
                             std::initializer_list<std::string_view> modules,
                             const Arrangement& arrangement) const {
  if (!is_there) return {};
  return parameters.load_stacked(TensorNames(*this, modules, ".bias").views(), arrangement);
}

}  // namespace reprise::models
