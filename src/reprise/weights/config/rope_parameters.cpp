#include "reprise/weights/config/rope_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "reprise/base/nearest_name.h"
#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights {
namespace {

constexpr std::array<std::pair<std::string_view, RopeType>, 6> kTypes = {{
    {"default", RopeType::standard},
    {"linear", RopeType::linear},
    {"dynamic", RopeType::dynamic},
    {"yarn", RopeType::yarn},
    {"longrope", RopeType::longrope},
    {"llama3", RopeType::llama3},
}};

// Published models use up to 10^7 (theta) and 128 (factor); beyond these bounds the frequencies of
// a double lose their meaning.
constexpr double kMaxTheta = 1e12;
constexpr double kMaxFactor = 1e6;

RopeType read_type(const ConfigReader& scaling, const RopeKeys& keys) {
  const bool is_old_name = scaling.find("rope_type") == nullptr;  // transformers before 4.43
  const std::string_view key = is_old_name ? "type" : "rope_type";
  const std::string name = scaling.string(key).value_or("default");
  if (name == "mrope") return RopeType::standard;  // with only text, this is the usual rotation
  if (name == "su" || (name == "yarn" && keys.yarn_means_longrope)) return RopeType::longrope;
  std::array<std::string_view, kTypes.size()> names;
  std::string list;
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].first == name) return kTypes[i].second;
    names[i] = kTypes[i].first;
    list.append(i == 0 ? "" : ", ").append(names[i]);
  }
  scaling.fail(key,
               fmt::format("rope type '{}' is not supported; supported: {}{}",
                           visible(name),
                           list,
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

void read_llama3(const ConfigReader& scaling, RopeParameters& rope) {
  rope.low_freq_factor = required_number(scaling, "low_freq_factor", 1e-6, kMaxFactor);
  rope.high_freq_factor = required_number(scaling, "high_freq_factor", 1e-6, kMaxFactor);
  if (rope.high_freq_factor < rope.low_freq_factor) {
    scaling.fail("high_freq_factor",
                 fmt::format("must not be below low_freq_factor {}, got {}",
                             rope.low_freq_factor,
                             rope.high_freq_factor));
  }
  rope.original_max_position_embeddings =
      scaling.required_integer("original_max_position_embeddings", 1, kMaxPositions);
}

// Source: YaRN (Peng et al. 2023), section 3.4, as in transformers (modeling_rope_utils.py), with
// DeepSeek's members mscale and mscale_all_dim.
void read_yarn(const ConfigReader& scaling, const RopeKeys& keys, RopeParameters& rope) {
  rope.original_max_position_embeddings =
      scaling.integer("original_max_position_embeddings", 1, kMaxPositions)
          .value_or(keys.max_position_embeddings);
  rope.beta_fast = scaling.number("beta_fast", 1e-6, kMaxFactor).value_or(32.0);
  rope.beta_slow = scaling.number("beta_slow", 1e-6, kMaxFactor).value_or(1.0);
  if (rope.beta_fast < rope.beta_slow) {
    scaling.fail(
        "beta_fast",
        fmt::format("must be at least beta_slow {}, got {}", rope.beta_slow, rope.beta_fast));
  }
  rope.truncates = scaling.boolean("truncate").value_or(true);
  const auto magnitude = [&](double scale) {
    return rope.factor <= 1 ? 1.0 : 0.1 * scale * std::log(rope.factor) + 1.0;
  };
  const double scale = scaling.number("mscale", 0, kMaxFactor).value_or(0);
  const double scale_of_all = scaling.number("mscale_all_dim", 0, kMaxFactor).value_or(0);
  if (scale_of_all != 0) rope.score_factor = magnitude(scale_of_all) * magnitude(scale_of_all);
  rope.attention_factor =
      scaling.number("attention_factor", 1e-6, kMaxFactor)
          .value_or(scale != 0 && scale_of_all != 0 ? magnitude(scale) / magnitude(scale_of_all)
                                                    : magnitude(1));
}

std::vector<double> read_factors(const ConfigReader& scaling, std::string_view key, int64_t count) {
  const Json* list = scaling.find(key);
  const bool fits =
      list != nullptr && list->is_array() && list->size() == static_cast<size_t>(count);
  if (!fits) scaling.fail(key, fmt::format("must be a list of {} numbers", count));
  std::vector<double> factors;
  for (const Json& item : *list) {
    const double factor = item.is_number() ? item.get<double>() : 0.0;
    if (!(factor >= 1.0 / kMaxFactor && factor <= kMaxFactor)) {
      scaling.fail(key, fmt::format("has an entry {}, expected 1e-6 to 1e6", visible(item.dump())));
    }
    factors.push_back(factor);
  }
  return factors;
}

// Source: LongRoPE (Ding et al. 2024) as in transformers (modeling_rope_utils.py) and Phi-3.
void read_longrope(const ConfigReader& config,
                   const ConfigReader& scaling,
                   const RopeKeys& keys,
                   RopeParameters& rope) {
  const int64_t rotary_dim = rope.rotary_dim == 0 ? keys.head_dim : rope.rotary_dim;
  rope.frequency_factors = read_factors(scaling, "short_factor", rotary_dim / 2);
  rope.long_factors = read_factors(scaling, "long_factor", rotary_dim / 2);
  constexpr std::string_view kOriginal = "original_max_position_embeddings";
  const std::optional<int64_t> inside = scaling.integer(kOriginal, 2, kMaxPositions);
  rope.original_max_position_embeddings =
      inside.value_or(config.integer(kOriginal, 2, kMaxPositions).value_or(0));
  if (rope.original_max_position_embeddings == 0) {
    config.fail(kOriginal, "is required for the rope type longrope");
  }
  const auto original = static_cast<double>(rope.original_max_position_embeddings);
  const double factor = scaling.number("factor", 1e-6, kMaxFactor)
                            .value_or(static_cast<double>(keys.max_position_embeddings) / original);
  rope.attention_factor =
      scaling.number("attention_factor", 1e-6, kMaxFactor)
          .value_or(factor <= 1 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(original)));
}

void read_partial_factor(const ConfigReader& reader,
                         std::string_view key,
                         const RopeKeys& keys,
                         std::optional<double> by_default,
                         RopeParameters& rope) {
  const std::optional<double> given = reader.number(key, 0.0, 1.0);
  const std::optional<double> factor = given ? given : by_default;
  if (!factor) return;
  if (keys.partial_factor.empty()) {
    if (*factor != 1.0) reader.fail(key, "only 1.0 is supported: this class rotates all of a head");
    return;
  }
  const auto num_elements = static_cast<int64_t>(static_cast<double>(keys.head_dim) * *factor);
  const bool is_odd = num_elements % 2 != 0;
  const int64_t least = keys.rounds_odd_up ? 1 : 2;
  if (num_elements < least || (is_odd && !keys.rounds_odd_up)) {
    reader.fail(key,
                fmt::format("{} of {} elements are {}; {} number from {} on is needed",
                            *factor,
                            keys.head_dim,
                            num_elements,
                            keys.rounds_odd_up ? "a" : "an even",
                            least));
  }
  // The number of elements in a head is even, so one more element fits.
  rope.frequency_dim = is_odd ? num_elements : 0;
  const int64_t rotary_dim = is_odd ? num_elements + 1 : num_elements;
  rope.rotary_dim = rotary_dim == keys.head_dim ? 0 : rotary_dim;
}

void read_scaling(const ConfigReader& config,
                  const ConfigReader& scaling,
                  const RopeKeys& keys,
                  RopeParameters& rope) {
  read_partial_factor(scaling, "partial_rotary_factor", keys, {}, rope);
  rope.type = read_type(scaling, keys);
  if (rope.type == RopeType::standard) return;
  if (rope.frequency_dim > 0) {
    scaling.fail("rope_type",
                 fmt::format("'{}' is not supported for an odd number of rotated elements, {}",
                             rope_type_name(rope.type),
                             rope.frequency_dim));
  }
  if (rope.type == RopeType::longrope) return read_longrope(config, scaling, keys, rope);
  rope.factor = required_number(scaling, "factor", 1.0, kMaxFactor);
  if (rope.type == RopeType::llama3) return read_llama3(scaling, rope);
  if (rope.type == RopeType::yarn) return read_yarn(scaling, keys, rope);
  if (rope.type == RopeType::dynamic) {
    rope.original_max_position_embeddings = keys.max_position_embeddings;
  }
}

// The object `rope_parameters`, or the object inside it for the layers of keys.layer_type.
std::optional<ConfigReader> find_parameters(const ConfigReader& config, const RopeKeys& keys) {
  std::optional<ConfigReader> parameters = config.object("rope_parameters");
  if (!parameters) return parameters;
  for (const std::string_view layer_type : {"full_attention", "sliding_attention"}) {
    if (!parameters->has(layer_type)) continue;
    if (keys.layer_type.empty()) {
      parameters->fail(layer_type, "rope parameters per layer type are not supported");
    }
    return parameters->object(keys.layer_type);
  }
  return parameters;
}

}  // namespace

std::string_view rope_type_name(RopeType type) noexcept {
  for (const auto& [name, candidate] : kTypes) {
    if (candidate == type) return name;
  }
  return type == RopeType::none ? "none" : "factors";
}

int64_t scaled_positions(const RopeParameters& rope, int64_t max_position_embeddings) {
  int64_t positions = max_position_embeddings;
  switch (rope.type) {
    case RopeType::yarn:
      positions = rope.original_max_position_embeddings;
      break;
    case RopeType::linear:
    case RopeType::dynamic:
      break;
    default:
      return positions;
  }
  const double scaled = static_cast<double>(positions) * rope.factor;
  return static_cast<int64_t>(std::min(scaled, static_cast<double>(kMaxPositions)));
}

RopeParameters read_rope_parameters(const ConfigReader& config,
                                    const RopeKeys& keys,
                                    std::vector<std::string>& warnings) {
  RopeParameters rope{.theta = keys.default_theta, .is_interleaved = keys.is_interleaved};
  const std::optional<double> theta = config.number(keys.theta, 1.0, kMaxTheta);
  rope.theta = theta.value_or(rope.theta);
  const std::string_view partial_key =
      keys.partial_factor.empty() ? "partial_rotary_factor" : keys.partial_factor;
  read_partial_factor(config, partial_key, keys, keys.default_partial_factor, rope);
  const std::optional<ConfigReader> parameters = find_parameters(config, keys);
  const std::optional<ConfigReader> scaling = config.object("rope_scaling");
  if (!parameters) {
    if (scaling) read_scaling(config, *scaling, keys, rope);
    return rope;
  }
  rope.theta = parameters->number("rope_theta", 1.0, kMaxTheta).value_or(rope.theta);
  // As in Transformers 5, a scaling in the older spelling has precedence, because model cards ask
  // users to add it.
  read_partial_factor(*parameters, "partial_rotary_factor", keys, {}, rope);
  read_scaling(config, scaling ? *scaling : *parameters, keys, rope);
  if (theta && *theta != rope.theta) {
    warnings.push_back(
        fmt::format("{} {} differs from rope_parameters.rope_theta {}; the latter is used",
                    keys.theta,
                    *theta,
                    rope.theta));
  }
  if (scaling) {
    warnings.emplace_back("rope_scaling is used instead of the scaling in rope_parameters");
  }
  return rope;
}

}  // namespace reprise::weights
