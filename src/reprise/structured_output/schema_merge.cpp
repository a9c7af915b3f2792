#include "reprise/structured_output/schema_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/structured_output/schema_validator.h"

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

/// "integer" counts as "number" too.
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

/// The rules of `schema` for the property `name`.
Json rule_for(const Json& schema, const std::string& name) {
  const auto properties = schema.find("properties");
  if (properties != schema.end() && properties->contains(name)) return (*properties)[name];
  return schema.value("additionalProperties", Json(true));
}

Json both(const Json& left, const Json& right) {
  if (left == right || right == true) return left;
  if (left == true) return right;
  if (left == false || right == false) return false;
  return {{"allOf", Json::array({left, right})}};
}

/// Merges properties one by one, because `additionalProperties` refers to the properties of its own
/// schema.
void merge_members(const Json& left, const Json& right, MergedSchema& merged) {
  const Json none = Json::object();
  const Json first = left.value("properties", none);
  const Json second = right.value("properties", none);
  if (!first.is_object() || !second.is_object())
    throw InvalidArgument("properties must be an object");
  Json properties = Json::object();
  for (const auto& [name, value] : first.items())
    properties[name] = both(value, rule_for(right, name));
  for (const auto& [name, value] : second.items()) {
    if (!first.contains(name)) properties[name] = both(rule_for(left, name), value);
  }
  if (!properties.empty()) merged.schema["properties"] = std::move(properties);
  if (left.contains("additionalProperties") || right.contains("additionalProperties")) {
    merged.schema["additionalProperties"] = both(left.value("additionalProperties", Json(true)),
                                                 right.value("additionalProperties", Json(true)));
  }
  const Json patterns = left.value("patternProperties", none);
  const Json more = right.value("patternProperties", none);
  if (patterns.empty() && more.empty()) return;
  merged.schema["patternProperties"] = patterns;
  for (const auto& [pattern, value] : more.items()) {
    merged.schema["patternProperties"][pattern] =
        patterns.contains(pattern) ? both(patterns[pattern], value) : value;
  }
  // A pattern of one schema excludes names from that schema's `additionalProperties`, which the
  // merged schema cannot express.
  merged.is_exact = merged.is_exact && patterns == more;
}

Json joined_lists(const Json& left, const Json& right) {
  Json all = as_array(left);
  for (const Json& one : as_array(right)) {
    if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
  }
  return all;
}

Json common_values(const Json& left, const Json& right) {
  Json common = Json::array();
  for (const Json& value : left) {
    const bool is_common = std::any_of(
        right.begin(), right.end(), [&value](const Json& one) { return are_equal(value, one); });
    if (is_common) common.push_back(value);
  }
  if (common.empty()) throw NothingIsValid("enums that are joined have no value in common");
  return common;
}

Json all_pairs(const Json& left, const Json& right) {
  constexpr size_t kMaxPairs = 256;
  if (left.size() * right.size() > kMaxPairs) {
    throw InvalidArgument(
        fmt::format("anyOf joined with anyOf makes more than {} pairs of branches", kMaxPairs));
  }
  Json pairs = Json::array();
  for (const Json& a : left) {
    for (const Json& b : right) pairs.push_back(both(a, b));
  }
  return pairs;
}

bool is_upper_bound(std::string_view name) {
  return name.starts_with("max") || name == "exclusiveMaximum";
}

bool is_bound(std::string_view name) {
  return name.starts_with("max") || name.starts_with("min") || name.starts_with("exclusiveM");
}

bool is_of_members(std::string_view name) {
  return name == "properties" || name == "additionalProperties" || name == "patternProperties";
}

void merge_keyword(const std::string& name, const Json& value, MergedSchema& merged) {
  Json& mine = merged.schema[name];
  if (name == "type") {
    mine = common_types(mine, value);
    if (mine.empty()) throw NothingIsValid("schemas that are joined have no type in common");
  } else if (is_bound(name)) {
    const bool is_tighter = is_upper_bound(name) ? value < mine : value > mine;
    if (is_tighter) mine = value;
  } else if (name == "required" || name == "pattern" || name == "format") {
    mine = joined_lists(mine, value);
  } else if (name == "enum") {
    mine = common_values(mine, value);
  } else if (name == "anyOf") {
    mine = all_pairs(mine, value);
  } else if (name == "not") {
    mine = {{"anyOf", Json::array({mine, value})}};
  } else if (name == "propertyNames" || name == "items" || name == "unevaluatedProperties") {
    if (mine.is_array() || value.is_array())
      merged.is_exact = false;
    else
      mine = both(mine, value);
  } else if (name == "uniqueItems") {
    mine = mine == true || value == true;
  } else if (name == "multipleOf" && mine.is_number_integer() && value.is_number_integer() &&
             mine.get<int64_t>() > 0 && value.get<int64_t>() > 0 &&
             mine.get<int64_t>() < 1'000'000'000 && value.get<int64_t>() < 1'000'000'000) {
    mine = std::lcm(mine.get<int64_t>(), value.get<int64_t>());
  } else {
    merged.is_exact = false;
  }
}

/// The constants that a property must have, if the schema lists some.
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

MergedSchema merge_schemas(const Json& left, const Json& right) {
  MergedSchema merged{.schema = left};
  merge_members(left, right, merged);
  for (const auto& [name, value] : right.items()) {
    if (is_of_members(name)) continue;
    if (!merged.schema.contains(name)) {
      merged.schema[name] = value;
    } else if (merged.schema[name] != value) {
      merge_keyword(name, value, merged);
    }
  }
  // With `prefixItems` or `additionalItems` in only one schema, `items` may mean different parts of
  // the array in the two schemas.
  const auto is_tuple = [](const Json& schema) {
    return schema.contains("prefixItems") || schema.contains("additionalItems");
  };
  const bool has_items = left.contains("items") || right.contains("items");
  if (has_items && (is_tuple(left) != is_tuple(right))) merged.is_exact = false;
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
