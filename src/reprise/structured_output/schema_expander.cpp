#include "reprise/structured_output/schema_expander.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "reprise/structured_output/output_spec.h"
#include "reprise/structured_output/schema_validator.h"

namespace reprise::structured_output {
namespace {

constexpr int kMaxReferences = 4096;
constexpr std::array<std::string_view, 3> kNotSupported = {
    "$dynamicRef", "$recursiveRef", "unevaluatedItems"};

Json any_of_list(Json list) { return {{"anyOf", std::move(list)}}; }

Json without_member(const std::string& name) {
  return {{"type", "object"}, {"properties", {{name, false}}}};
}

/// The numbers on the other side of a single bound; null for other rules.
Json beyond_bound(const Json& rules) {
  const bool has_type = rules.contains("type") && rules["type"] == "number";
  if (rules.size() != (has_type ? 2 : 1)) return {};
  for (const auto& [name, other] : {std::pair("minimum", "exclusiveMaximum"),
                                    std::pair("exclusiveMinimum", "maximum"),
                                    std::pair("maximum", "exclusiveMinimum"),
                                    std::pair("exclusiveMaximum", "minimum")}) {
    const auto bound = rules.find(name);
    if (bound == rules.end() || !bound->is_number()) continue;
    Json numbers = {{"type", "number"}, {other, *bound}};
    if (!has_type) return numbers;
    return any_of_list(Json::array({numbers, {{"not", {{"type", "number"}}}}}));
  }
  return {};
}

const Json& list_of(const Json& schema, const char* name) {
  const Json& found = schema[name];
  if (!found.is_array() || found.empty()) {
    throw InvalidArgument(fmt::format("{} must be an array that is not empty", name));
  }
  if (found.size() > kMaxBranches) {
    throw InvalidArgument(fmt::format("{} has more than {} branches", name, kMaxBranches));
  }
  return found;
}

/// In draft 4, `exclusiveMinimum: true` makes `minimum` exclusive.
void translate_draft_4(Json& schema) {
  for (const auto& [flag, bound] :
       {std::pair("exclusiveMinimum", "minimum"), std::pair("exclusiveMaximum", "maximum")}) {
    const auto found = schema.find(flag);
    if (found == schema.end() || !found->is_boolean()) continue;
    const bool is_exclusive = found->get<bool>() && schema.contains(bound);
    schema.erase(flag);
    if (!is_exclusive) continue;
    schema[flag] = schema[bound];
    schema.erase(bound);
  }
}

/// The dependencies as branches: "if a, then b" for each.
void add_dependencies(const Json& dependencies, std::vector<Json>& conditions) {
  if (!dependencies.is_object()) throw InvalidArgument("dependencies must be an object");
  for (const auto& [name, wanted] : dependencies.items()) {
    const Json present = {{"required", Json::array({name})}};
    const Json needed = wanted.is_array() ? Json{{"required", wanted}} : wanted;
    // Values that are not objects have no members, so no condition holds for them.
    conditions.push_back(any_of_list(Json::array(
        {{{"allOf", Json::array({present, needed})}}, {{"properties", {{name, false}}}}})));
  }
}

Json conditional(const Json& schema) {
  const Json& condition = schema["if"];
  const Json opposite = opposite_of(condition);
  const Json unless = opposite.is_null() ? Json{{"not", condition}} : opposite;
  return any_of_list(
      Json::array({{{"allOf", Json::array({condition, schema.value("then", Json(true))})}},
                   {{"allOf", Json::array({unless, schema.value("else", Json(true))})}}}));
}

}  // namespace

MergedSchema SchemaExpander::with(const MergedSchema& left, const MergedSchema& right) {
  MergedSchema merged = merge_schemas(left.schema, right.schema);
  merged.is_exact = merged.is_exact && left.is_exact && right.is_exact;
  return merged;
}

MergedSchema SchemaExpander::joined(const MergedSchema& left, const Json& right, int depth) {
  return with(left, expanded(right, depth + 1));
}

/// Rewrites the branches of `oneOf` so that at most one of them holds for any value: each excludes
/// the others, unless they are disjoint from it anyway.
Json SchemaExpander::branches_of_one_of(const Json& branches) const {
  std::vector<Json> resolved;
  for (const Json& branch : branches) {
    const bool is_reference = branch.is_object() && branch.contains("$ref");
    resolved.push_back(is_reference && branch["$ref"].is_string()
                           ? referenced(*root_, branch["$ref"].get<std::string>())
                           : branch);
  }
  Json exclusive = Json::array();
  for (size_t i = 0; i < branches.size(); ++i) {
    Json others = Json::array();
    for (size_t j = 0; j < branches.size(); ++j) {
      if (i != j && !are_disjoint(resolved[i], resolved[j])) others.push_back(branches[j]);
    }
    if (others.empty()) {
      exclusive.push_back(branches[i]);
    } else {
      exclusive.push_back({{"allOf", Json::array({branches[i], {{"not", any_of_list(others)}}})}});
    }
  }
  return exclusive;
}

/// Turns `not` into conditions on members where possible. The rest of it stays.
MergedSchema SchemaExpander::with_opposites(MergedSchema merged, int depth) {
  const Json excluded = merged.schema["not"];
  merged.schema.erase("not");
  const bool is_list = excluded.is_object() && assertions_of(excluded).size() == 1 &&
                       excluded.contains("anyOf") && excluded["anyOf"].is_array();
  Json rest = Json::array();
  for (const Json& one : is_list ? excluded["anyOf"] : Json::array({excluded})) {
    const Json opposite = opposite_of(one);
    if (opposite.is_null()) {
      rest.push_back(one);
    } else {
      merged = joined(merged, opposite, depth);
    }
  }
  if (rest.empty()) return merged;
  const Json left = rest.size() == 1 ? rest[0] : any_of_list(rest);
  MergedSchema with_rest = merge_schemas(merged.schema, {{"not", left}});
  with_rest.is_exact = with_rest.is_exact && merged.is_exact;
  return with_rest;
}

MergedSchema SchemaExpander::expanded(const Json& schema, int depth) {
  if (depth > kMaxSchemaDepth) throw InvalidArgument("schemas are joined too deep");
  if (schema == true) return {.schema = Json::object()};
  if (schema == false) throw NothingIsValid("false: nothing is valid");
  if (!schema.is_object()) throw InvalidArgument("a schema is an object or a boolean");
  for (const std::string_view name : kNotSupported) {
    if (schema.contains(name)) {
      throw InvalidArgument(fmt::format(
          "`{}` is not supported; use `$ref`, `prefixItems` and `items` instead", name));
    }
  }
  MergedSchema result{.schema = assertions_of(schema)};
  Json& rest = result.schema;
  translate_draft_4(rest);
  if (rest.contains("const")) {
    const Json wanted = Json::array({rest["const"]});
    rest.erase("const");
    rest = merge_schemas(rest, {{"enum", wanted}}).schema;
  }
  std::vector<Json> conditions;
  if (rest.contains("$ref")) conditions.push_back(Json::object());  // the target, below
  for (const char* name : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    if (rest.contains(name)) add_dependencies(rest[name], conditions);
  }
  if (rest.contains("if")) conditions.push_back(conditional(rest));
  if (rest.contains("oneOf")) {
    conditions.push_back(any_of_list(branches_of_one_of(list_of(rest, "oneOf"))));
  }
  if (rest.contains("anyOf")) (void)list_of(rest, "anyOf");
  if (rest.contains("allOf")) {
    for (const Json& part : list_of(rest, "allOf")) conditions.push_back(part);
  }
  if (rest.contains("$ref")) {
    if (!rest["$ref"].is_string()) throw InvalidArgument("$ref must be a string");
    if (++num_references_ > kMaxReferences) {
      throw InvalidArgument(
          "too many $ref with other keywords beside them; move them into $defs without such "
          "keywords");
    }
    conditions[0] = referenced(*root_, rest["$ref"].get<std::string>());
  }
  for (const char* name : {"$ref",
                           "dependentRequired",
                           "dependentSchemas",
                           "dependencies",
                           "if",
                           "then",
                           "else",
                           "oneOf",
                           "allOf"}) {
    rest.erase(name);
  }
  for (const Json& condition : conditions) result = joined(result, condition, depth);
  if (result.schema.contains("not")) result = with_opposites(std::move(result), depth);
  return result;
}

Json opposite_of(const Json& schema) {
  if (schema.is_boolean()) return !schema.get<bool>();
  if (!schema.is_object()) return {};
  const Json rules = assertions_of(schema);
  if (rules.empty()) return false;
  if (rules.size() == 1 && rules.contains("not")) return rules["not"];
  if (Json beyond = beyond_bound(rules); !beyond.is_null()) return beyond;
  const bool is_of_members =
      std::all_of(rules.items().begin(), rules.items().end(), [](const auto& rule) {
        return rule.key() == "properties" || rule.key() == "required" ||
               (rule.key() == "type" && rule.value() == "object");
      });
  if (!is_of_members || (rules.size() == 1 && rules.contains("type"))) return {};
  Json ways = Json::array();
  for (const Json& name : rules.value("required", Json::array())) {
    if (name.is_string()) ways.push_back(without_member(name.get<std::string>()));
  }
  const Json properties = rules.value("properties", Json::object());
  for (const auto& [name, rule] : properties.items()) {
    ways.push_back({{"type", "object"},
                    {"required", Json::array({name})},
                    {"properties", {{name, {{"not", rule}}}}}});
  }
  return any_of_list(std::move(ways));
}

}  // namespace reprise::structured_output
