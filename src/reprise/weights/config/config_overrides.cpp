#include "reprise/weights/config/config_overrides.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "reprise/weights/files/config_reader.h"

namespace reprise::weights {
namespace {

constexpr std::string_view kTextConfig = "text_config";
constexpr std::string_view kParameters = "rope_parameters";
constexpr std::string_view kScaling = "rope_scaling";

// A member in the older spelling, and its place in the newer one: its name there and, if layers of
// different types have objects of their own, the object.
struct RopeMember {
  std::string_view old_name;
  std::string_view layers;
  std::string_view name;
};
constexpr auto kRopeMembers = std::to_array<RopeMember>({
    {"rope_theta", "full_attention", "rope_theta"},
    {"partial_rotary_factor", "full_attention", "partial_rotary_factor"},
    {"rope_local_base_freq", "sliding_attention", "rope_theta"},
});

bool has_object(const Json& config, std::string_view key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_object();
}

bool names_type(const Json& scaling) {
  return scaling.is_object() && (scaling.contains("rope_type") || scaling.contains("type"));
}

// The members of a rotation that do not belong to its scaling.
Json without_scaling(const Json& parameters) {
  Json kept = Json::object();
  for (const char* key : {"rope_theta", "partial_rotary_factor"}) {
    if (parameters.contains(key)) kept[key] = parameters[key];
  }
  return kept;
}

void change_scaling(const Json& scaling, Json& parameters) {
  if (scaling.is_null()) {
    parameters = without_scaling(parameters);
    parameters["rope_type"] = "default";
    return;
  }
  if (names_type(scaling)) parameters = without_scaling(parameters);
  parameters.merge_patch(scaling);
}

// Moves the overrides in the older spelling from `overrides` into rope_parameters.
void override_rope_parameters(Json& config, Json& overrides) {
  if (!has_object(config, kParameters) || overrides.contains(kParameters)) return;
  Json& all = config[std::string(kParameters)];
  const auto parameters_of = [&](std::string_view layers) -> Json* {
    if (has_object(all, layers)) return &all[std::string(layers)];
    return layers == "full_attention" ? &all : nullptr;
  };
  if (const auto scaling = overrides.find(kScaling); scaling != overrides.end()) {
    if (scaling->is_object() || scaling->is_null()) {
      change_scaling(*scaling, *parameters_of("full_attention"));
      overrides.erase(scaling);
    }
  }
  for (const auto& [old_name, layers, name] : kRopeMembers) {
    Json* parameters = parameters_of(layers);
    const auto value = overrides.find(old_name);
    if (parameters == nullptr || value == overrides.end()) continue;
    parameters->merge_patch({{std::string(name), *value}});
    config.erase(std::string(old_name));
    overrides.erase(value);
  }
}

void apply(Json& config, Json overrides) {
  if (has_object(config, kTextConfig) && has_object(overrides, kTextConfig)) {
    const std::string key(kTextConfig);
    apply(config[key], overrides[key]);
    overrides.erase(key);
  }
  override_rope_parameters(config, overrides);
  if (const auto scaling = overrides.find(kScaling);
      scaling != overrides.end() && names_type(*scaling)) {
    config.erase(std::string(kScaling));
  }
  config.merge_patch(overrides);
}

bool is_member_of_rope(std::string_view name) {
  return name == kScaling || std::ranges::any_of(kRopeMembers, [&](const RopeMember& member) {
           return member.old_name == name;
         });
}

}  // namespace

std::string override_config(std::string_view text, std::string_view path, const Json& overrides) {
  if (overrides.empty()) return std::string(text);
  Json document = parse_json_file(text, path, "E_CONFIG");
  document.merge_patch(overrides);
  return document.dump();
}

Json override_model_config(Json config, const Json& overrides) {
  apply(config, overrides);
  return config;
}

std::vector<std::string> overrides_without_effect(const Json& overrides,
                                                  const Json& config,
                                                  const Json& text,
                                                  const std::set<std::string, std::less<>>& read) {
  std::vector<std::string> names;
  const auto is_in_text = [&](const std::string& key, const Json& where) {
    const auto found = where.find(key);
    const auto used = text.find(key);
    if (found == where.end() || used == text.end()) return found == where.end();
    return *found == *used;
  };
  const auto check = [&](const Json& of, const Json& where, std::string_view prefix) {
    for (const auto& [key, value] : of.items()) {
      if (value.is_object() && key == kTextConfig && prefix.empty()) continue;
      const bool is_read = read.contains(key);
      const bool is_respelled = is_member_of_rope(key) && has_object(where, kParameters);
      const std::string place = is_respelled ? std::string(kParameters) : key;
      if (!is_read || !is_in_text(place, where)) names.push_back(fmt::format("{}{}", prefix, key));
    }
  };
  check(overrides, config, "");
  if (has_object(overrides, kTextConfig) && has_object(config, kTextConfig)) {
    const std::string key(kTextConfig);
    check(overrides[key], config[key], "text_config.");
  }
  return names;
}

}  // namespace reprise::weights
