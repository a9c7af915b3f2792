#include "reprise/weights/rope_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "reprise/base/nearest_name.h"
#include "reprise/weights/tensor_spec.h"
#include "reprise/weights/token_limits.h"

namespace reprise::weights {
namespace {

constexpr std::array<std::pair<std::string_view, RopeType>, 3> kTypes = {{
    {"default", RopeType::standard},
    {"linear", RopeType::linear},
    {"llama3", RopeType::llama3},
}};

// Published models use up to 10^7 (theta) and 32 (factor); beyond these bounds the frequencies of a
// double lose their meaning.
constexpr double kMaxTheta = 1e12;
constexpr double kMaxFactor = 1e6;

RopeType read_type(const ConfigReader& scaling) {
  const bool is_old_name = scaling.find("rope_type") == nullptr;  // transformers before 4.43
  const std::string_view key = is_old_name ? "type" : "rope_type";
  const std::string name = scaling.string(key).value_or("default");
  std::array<std::string_view, kTypes.size()> names;
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].first == name) return kTypes[i].second;
    names[i] = kTypes[i].first;
  }
  scaling.fail(key,
               fmt::format("rope type '{}' is not supported; supported: default, linear, llama3{}",
                           visible(name),
                           did_you_mean(name, names)));
}

double required_number(const ConfigReader& reader,
                       std::string_view key,
                       double least,
                       double most) {
  const std::optional<double> value = reader.number(key, least, most);
  if (!value) reader.fail(key, fmt::format("is required: a number from {} to {}", least, most));
  return *value;
}

void read_scaling(const ConfigReader& scaling, RopeParameters& rope) {
  rope.type = read_type(scaling);
  if (scaling.number("partial_rotary_factor", 0.0, 1.0).value_or(1.0) != 1.0) {
    scaling.fail("partial_rotary_factor", "only 1.0 is supported: all of a head is rotated");
  }
  if (rope.type == RopeType::standard) return;
  rope.factor = required_number(scaling, "factor", 1.0, kMaxFactor);
  if (rope.type == RopeType::linear) return;
  rope.low_freq_factor = required_number(scaling, "low_freq_factor", 1e-6, kMaxFactor);
  rope.high_freq_factor = required_number(scaling, "high_freq_factor", 1e-6, kMaxFactor);
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    scaling.fail("high_freq_factor",
                 fmt::format("must be above low_freq_factor {}, got {}",
                             rope.low_freq_factor,
                             rope.high_freq_factor));
  }
  rope.original_max_position_embeddings =
      scaling.required_integer("original_max_position_embeddings", 1, kMaxPositions);
}

}  // namespace

std::string_view rope_type_name(RopeType type) noexcept {
  for (const auto& [name, candidate] : kTypes) {
    if (candidate == type) return name;
  }
  return "factors";
}

RopeParameters read_rope_parameters(const ConfigReader& config,
                                    std::vector<std::string>& warnings) {
  RopeParameters rope;
  const std::optional<double> theta = config.number("rope_theta", 1.0, kMaxTheta);
  if (config.number("partial_rotary_factor", 0.0, 1.0).value_or(1.0) != 1.0) {
    config.fail("partial_rotary_factor", "only 1.0 is supported: all of a head is rotated");
  }
  rope.theta = theta.value_or(rope.theta);
  const std::optional<ConfigReader> parameters = config.object("rope_parameters");
  const std::optional<ConfigReader> scaling = config.object("rope_scaling");
  if (!parameters) {
    if (scaling) read_scaling(*scaling, rope);
    return rope;
  }
  for (const std::string_view layer_type : {"full_attention", "sliding_attention"}) {
    if (parameters->has(layer_type)) {
      parameters->fail(layer_type, "rope parameters per layer type are not supported");
    }
  }
  rope.theta = parameters->number("rope_theta", 1.0, kMaxTheta).value_or(rope.theta);
  read_scaling(*parameters, rope);
  if (theta && *theta != rope.theta) {
    warnings.push_back(
        fmt::format("rope_theta {} differs from rope_parameters.rope_theta {}; the latter is used",
                    *theta,
                    rope.theta));
  }
  if (scaling) {
    warnings.push_back("rope_scaling is ignored because rope_parameters is given");
  }
  return rope;
}

}  // namespace reprise::weights
