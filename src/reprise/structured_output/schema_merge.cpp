#include "reprise/structured_output/schema_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "reprise/base/error.h"

namespace reprise::structured_output {
namespace {

constexpr std::array<std::string_view, 43> kAssertions = {"$ref",
                                                          "$dynamicRef",
                                                          "$recursiveRef",
                                                          "additionalItems",
                                                          "additionalProperties",
                                                          "allOf",
                                                          "anyOf",
                                                          "const",
                                                          "contains",
                                                          "dependencies",
                                                          "dependentRequired",
                                                          "dependentSchemas",
                                                          "else",
                                                          "enum",
                                                          "exclusiveMaximum",
                                                          "exclusiveMinimum",
                                                          "format",
                                                          "if",
                                                          "items",
                                                          "maxContains",
                                                          "maxItems",
                                                          "maxLength",
                                                          "maxProperties",
                                                          "maximum",
                                                          "minContains",
                                                          "minItems",
                                                          "minLength",
                                                          "minProperties",
                                                          "minimum",
                                                          "multipleOf",
                                                          "not",
                                                          "oneOf",
                                                          "pattern",
                                                          "patternProperties",
                                                          "prefixItems",
                                                          "properties",
                                                          "propertyNames",
                                                          "required",
                                                          "then",
                                                          "type",
                                                          "unevaluatedItems",
                                                          "unevaluatedProperties",
                                                          "uniqueItems"};

Json as_array(const Json& value) { return value.is_array() ? value : Json::array({value}); }

/// "integer" is a "number" too.
Json common_types(const Json& left, const Json& right) {
  Json common = Json::array();
  for (const Json& a : as_array(left)) {
    for (const Json& b : as_array(right)) {
      if (a == b) common.push_back(a);
      if ((a == "integer" && b == "number") || (a == "number" && b == "integer"))
        common.push_back("integer");
    }
  }
  return common;
}

void refuse_keyword(std::string_view keyword) {
  throw InvalidArgument(
      fmt::format("`{}` here and in a schema joined with it cannot be enforced", keyword));
}

Json merge_properties(const Json& left, const Json& right) {
  Json merged = left;
  if (!left.is_object() || !right.is_object()) refuse_keyword("properties");
  for (const auto& [name, value] : right.items()) {
    merged[name] = merged.contains(name) && merged[name] != value
                       ? Json{{"allOf", Json::array({merged[name], value})}}
                       : value;
  }
  return merged;
}

/// `additionalProperties: false` refers to the properties in the same schema.
void check_closed(const Json& closed, const Json& other) {
  const auto others = closed.find("additionalProperties");
  if (others == closed.end() || *others == true) return;
  const Json known = closed.value("properties", Json::object());
  const Json more = other.value("properties", Json::object());
  for (const auto& [name, value] : more.items()) {
    if (!known.contains(name)) refuse_keyword("additionalProperties");
  }
}

/// The constants that a property must have, if it must have some.
Json constants_of(const Json& schema, const std::string& name) {
  const Json properties = schema.value("properties", Json::object());
  const Json required = schema.value("required", Json::array());
  if (std::find(required.begin(), required.end(), Json(name)) == required.end()) return {};
  const auto property = properties.find(name);
  if (property == properties.end() || !property->is_object()) return {};
  if (property->contains("const")) return Json::array({(*property)["const"]});
  return property->value("enum", Json());
}

bool share_no_value(const Json& left, const Json& right) {
  return std::none_of(left.begin(), left.end(), [&right](const Json& value) {
    return std::find(right.begin(), right.end(), value) != right.end();
  });
}

Json values_of(const Json& schema) {
  if (schema.contains("const")) return Json::array({schema["const"]});
  return schema.value("enum", Json());
}

}  // namespace

Json assertions_of(const Json& schema) {
  Json kept = Json::object();
  for (const auto& [name, value] : schema.items()) {
    if (std::find(kAssertions.begin(), kAssertions.end(), name) != kAssertions.end())
      kept[name] = value;
  }
  return kept;
}

Json merge_schemas(const Json& left, const Json& right) {
  check_closed(left, right);
  check_closed(right, left);
  Json merged = left;
  for (const auto& [name, value] : right.items()) {
    if (!merged.contains(name) || merged[name] == value) {
      merged[name] = value;
    } else if (name == "type") {
      merged[name] = common_types(merged[name], value);
      if (merged[name].empty())
        throw InvalidArgument("schemas that are joined have no type in common");
    } else if (name == "properties") {
      merged[name] = merge_properties(merged[name], value);
    } else if (name == "required" && merged[name].is_array() && value.is_array()) {
      for (const Json& item : value) merged[name].push_back(item);
    } else if (name == "additionalProperties" && (value == false || merged[name] == true)) {
      merged[name] = value;
    } else if (name == "additionalProperties" && (value == true || merged[name] == false)) {
      continue;
    } else if ((name == "title") || (name == "description") || (name == "default") ||
               name.starts_with("$defs") || name == "definitions" || name == "$schema" ||
               name == "$id" || name == "examples") {
      continue;
    } else {
      refuse_keyword(name);
    }
  }
  return merged;
}

bool is_of_type(const Json& value, const Json& type) {
  for (const Json& name : as_array(type)) {
    const bool is_whole =
        value.is_number_integer() ||
        (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>());
    if ((name == "string" && value.is_string()) || (name == "boolean" && value.is_boolean()) ||
        (name == "null" && value.is_null()) || (name == "array" && value.is_array()) ||
        (name == "object" && value.is_object()) || (name == "number" && value.is_number()) ||
        (name == "integer" && is_whole)) {
      return true;
    }
  }
  return false;
}

bool are_disjoint(const Json& left, const Json& right) {
  if (!left.is_object() || !right.is_object()) return false;
  const Json a = values_of(left);
  const Json b = values_of(right);
  if (a.is_array() && b.is_array()) return share_no_value(a, b);
  const auto no_value_of = [](const Json& values, const Json& schema) {
    return values.is_array() && schema.contains("type") &&
           std::none_of(values.begin(), values.end(), [&schema](const Json& value) {
             return is_of_type(value, schema["type"]);
           });
  };
  if (no_value_of(a, right) || no_value_of(b, left)) return true;
  if (!left.contains("type") || !right.contains("type")) return false;
  if (common_types(left["type"], right["type"]).empty()) return true;
  if (left["type"] != "object" || right["type"] != "object") return false;
  const Json properties = left.value("properties", Json::object());
  return std::any_of(properties.items().begin(), properties.items().end(), [&](const auto& item) {
    const Json here = constants_of(left, item.key());
    const Json there = constants_of(right, item.key());
    return here.is_array() && there.is_array() && share_no_value(here, there);
  });
}

}  // namespace reprise::structured_output
