#include "reprise/models/mixer_parts.h"

#include <fmt/format.h>

#include <string>

namespace reprise::models {

Tensor load_mixer(const LayerParts& parts, std::string_view name, std::optional<DType> dtype) {
  return parts.parameters.load(parts.names.in_mixer(parts.layer, name), {.dtype = dtype});
}

Projection load_mixer_linear(const LayerParts& parts, bool has_bias, std::string_view module) {
  const std::string name = fmt::format("{}{}", parts.names.mixer, module);
  return parts.load_linear(has_bias, {name});
}

}  // namespace reprise::models
