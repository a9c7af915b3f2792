#include "reprise/models/layer_parts.h"

#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/tensor/weight_layout.h"

namespace reprise::models {
namespace {

// Memory for the adapters of a projection that stacks `modules`.
const lora::LoraLayer& add_lora_layer(const LayerParts& parts,
                                      std::initializer_list<std::string_view> modules,
                                      const Arrangement& arrangement) {
  Parameters& parameters = parts.parameters;
  lora::LoraLayer layer{.rows = arrangement.rows};
  int64_t out_features = 0;
  for (const std::string_view module : modules) {
    std::string name = parts.names.in_layer(parts.layer, module);
    const Shape shape = parameters.stored_shape(name + ".weight", parts.names.is_transposed);
    layer.modules.push_back({.name = std::move(name), .out_features = shape[0]});
    layer.in_features = shape[1];
    out_features += shape[0];
  }
  const int64_t num_slots = parts.adapters->max_loras();
  const int64_t max_rank = parts.adapters->max_lora_rank();
  layer.parts = lora::parts_of(layer.modules, layer.rows);
  std::vector<int32_t> ends;
  for (const lora::LoraPart& part : layer.parts) ends.push_back(static_cast<int32_t>(part.end));
  const DType dtype = parameters.dtype();
  const std::string& name = layer.modules.front().name;
  layer.a = parameters.add_buffer(
      name + ".lora_A", {dtype, {num_slots, std::ssize(ends) * max_rank, layer.in_features}});
  layer.b = parameters.add_buffer(name + ".lora_B", {dtype, {num_slots, max_rank, out_features}});
  layer.ends = parameters.add_table(name + ".lora_ends", ends);
  return parts.adapters->add_layer(std::move(layer));
}

// The names of the tensors with the ending `suffix` of several modules of a layer.
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

// The static scale of the modules' input, in a checkpoint of static int8. As in vLLM, modules that
// form one product share the largest scale.
Tensor load_input_scale(const LayerParts& parts,
                        std::initializer_list<std::string_view> modules,
                        const Tensor& weight) {
  const bool is_used = parts.config.quantization.has_static_int8 &&
                       weight.layout().family == WeightFamily::int8_panels;
  if (!is_used) return {};
  return parts.parameters.load_scale(TensorNames(parts, modules, ".input_scale").views());
}

}  // namespace

Tensor LayerParts::load_projection(std::initializer_list<std::string_view> modules,
                                   Arrangement arrangement) const {
  arrangement.is_transposed = names.is_transposed;
  return parameters.load_projection(TensorNames(*this, modules, ".weight").views(), arrangement);
}

Projection LayerParts::load_linear(bool has_bias,
                                   std::initializer_list<std::string_view> modules,
                                   const Arrangement& arrangement) const {
  const Tensor weight = load_projection(modules, arrangement);
  return {.weight = weight,
          .bias = load_bias(has_bias, modules, arrangement),
          .lora = adapters == nullptr ? nullptr : &add_lora_layer(*this, modules, arrangement),
          .input_scale = load_input_scale(*this, modules, weight)};
}

Projection LayerParts::load_row_parallel(bool has_bias,
                                         std::initializer_list<std::string_view> modules) const {
  Projection projection = load_linear(has_bias, modules);
  projection.ranks = config.tensor_parallel_size;
  return projection;
}

Tensor LayerParts::load_bias(bool is_there,
                             std::initializer_list<std::string_view> modules,
                             const Arrangement& arrangement) const {
  if (!is_there) return {};
  return parameters.load_stacked(TensorNames(*this, modules, ".bias").views(), arrangement);
}

}  // namespace reprise::models
