#include "reprise/output_parsers/tool_schemas.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "reprise/output_parsers/tool_call.h"

namespace reprise::output_parsers {
namespace {

constexpr int kMaxSchemaDepth = 16;

const Json* member(const Json& json, std::string_view name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found == json.end() ? nullptr : &*found;
}

std::string_view type_of_value(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "boolean";
  if (value.is_number_integer()) return "integer";
  if (value.is_number()) return "number";
  if (value.is_array()) return "array";
  return value.is_object() ? "object" : "string";
}

/// Adds the types that a schema allows, by `type`, `enum` and alternatives.
void add_types(const Json& schema, int depth, std::set<std::string, std::less<>>& types) {
  if (depth > kMaxSchemaDepth) return;
  if (const Json* type = member(schema, "type")) {
    if (type->is_string()) types.insert(type->get<std::string>());
    if (type->is_array()) {
      for (const Json& one : *type) {
        if (one.is_string()) types.insert(one.get<std::string>());
      }
    }
  }
  if (const Json* values = member(schema, "enum"); values && values->is_array()) {
    for (const Json& value : *values) types.insert(std::string(type_of_value(value)));
  }
  for (const char* choice : {"anyOf", "oneOf", "allOf"}) {
    if (const Json* schemas = member(schema, choice); schemas && schemas->is_array()) {
      for (const Json& one : *schemas) add_types(one, depth + 1, types);
    }
  }
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : static_cast<char>(c);
  });
  return lower;
}

/// The text as a value of this type, or nullopt if it is not one.
std::optional<Json> as_type(std::string_view type, std::string_view text) {
  const std::string_view core = trimmed(text);
  if (type == "null")
    return lower_case(core) == "null" ? std::optional<Json>(Json()) : std::nullopt;
  if (type == "boolean") {
    const std::string lower = lower_case(core);
    if (lower == "true" || lower == "1") return Json(true);
    if (lower == "false" || lower == "0") return Json(false);
    return {};
  }
  if (type == "string") return Json(std::string(text));
  std::optional<Json> json = json_of(core);
  if (!json) return {};
  if (type == "integer" && !json->is_number_integer()) return {};
  if (type == "number" && !json->is_number()) return {};
  if (type == "object" && !json->is_object()) return {};
  if (type == "array" && !json->is_array()) return {};
  return json;
}

}  // namespace

const Json* ToolSchemas::find(std::string_view function, std::string_view parameter) const {
  if (!tools_.is_array()) return nullptr;
  for (const Json& tool : tools_) {
    const Json* described = member(tool, "function");
    if (described == nullptr) continue;
    const Json* name = member(*described, "name");
    if (name == nullptr || !name->is_string() || name->get_ref<const std::string&>() != function)
      continue;
    const Json* parameters = member(*described, "parameters");
    const Json* properties = parameters ? member(*parameters, "properties") : nullptr;
    return properties ? member(*properties, parameter) : nullptr;
  }
  return nullptr;
}

bool ToolSchemas::has(std::string_view function, std::string_view parameter) const {
  return find(function, parameter) != nullptr;
}

Json ToolSchemas::value_of(std::string_view function,
                           std::string_view parameter,
                           std::string_view text) const {
  const Json* schema = find(function, parameter);
  std::set<std::string, std::less<>> types;
  if (schema != nullptr) add_types(*schema, 0, types);
  // The narrowest type that fits wins, and text fits always.
  constexpr std::array<std::string_view, 6> kByPriority = {
      "null", "integer", "number", "boolean", "object", "array"};
  for (const std::string_view type : kByPriority) {
    if (!types.contains(type)) continue;
    if (std::optional<Json> value = as_type(type, text)) return *std::move(value);
  }
  if (types.empty() || types.contains("string")) return std::string(text);
  // The text fits no type of the schema: JSON is then the better guess.
  if (std::optional<Json> value = json_of(trimmed(text))) return *std::move(value);
  return std::string(text);
}

}  // namespace reprise::output_parsers
