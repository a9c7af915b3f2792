#include "reprise/structured_output/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/structured_output/output_spec.h"
#include "reprise/structured_output/reference_graph.h"
#include "reprise/structured_output/scalar_schema.h"
#include "reprise/structured_output/schema_merge.h"

namespace reprise::structured_output {
namespace {

// Each of these keywords changes which answers are valid, and no backend enforces it.
constexpr std::array<std::string_view, 14> kNotEnforced = {"not",
                                                           "if",
                                                           "then",
                                                           "else",
                                                           "dependencies",
                                                           "contains",
                                                           "$dynamicRef",
                                                           "minContains",
                                                           "maxContains",
                                                           "dependentRequired",
                                                           "propertyNames",
                                                           "dependentSchemas",
                                                           "unevaluatedItems",
                                                           "$recursiveRef"};
constexpr std::array<std::string_view, 4> kStringKeywords = {
    "minLength", "maxLength", "pattern", "format"};
constexpr std::array<std::string_view, 5> kNumberKeywords = {
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"};
constexpr std::array<std::string_view, 6> kArrayKeywords = {
    "items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems"};
constexpr std::array<std::string_view, 7> kObjectKeywords = {"properties",
                                                             "required",
                                                             "additionalProperties",
                                                             "patternProperties",
                                                             "minProperties",
                                                             "maxProperties",
                                                             "unevaluatedProperties"};
constexpr int kMaxSubschemas = 4096;
Json without_ref(const Json& given) {
  Json rest = assertions_of(given);
  rest.erase("$ref");
  return rest;
}

template <size_t kCount>
bool has_any(const Json& schema, const std::array<std::string_view, kCount>& names) {
  return std::any_of(names.begin(), names.end(), [&schema](std::string_view name) {
    return schema.contains(name);
  });
}

/// The schema that is being rewritten, and the place in it.
class SchemaWriter {
 public:
  explicit SchemaWriter(const Json& root) : root_(&root) {}

  Json write() {
    Json written = schema(*root_, 0);
    Json definitions = Json::object();
    while (!pending_.empty()) {
      const auto [name, pointer] = pending_.front();
      pending_.pop_front();
      current_ = name;
      path_ = {pointer};
      definitions[name] = schema(target(pointer), 0);
    }
    here([&] { return require_progress(unguarded_); });
    if (!definitions.empty()) written["$defs"] = std::move(definitions);
    return written;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw InvalidArgument(fmt::format("JSON schema at {}: {}", fmt::join(path_, "/"), what));
  }

  /// One level further down in the schema, for messages and limits.
  class Step {
   public:
    Step(SchemaWriter& writer, std::string_view name) : writer_(&writer) {
      writer.path_.emplace_back(name);
    }
    ~Step() { writer_->path_.pop_back(); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    SchemaWriter* writer_;
  };

  const Json& target(const std::string& pointer) const {
    try {
      return root_->at(Json::json_pointer(pointer));
    } catch (const Json::exception&) {
      fail(fmt::format("$ref points to nothing: {}", pointer));
    }
  }

  [[nodiscard]] std::string pointer_of(const Json& reference) const {
    if (!reference.is_string()) fail("$ref must be a string");
    const auto& text = reference.get_ref<const std::string&>();
    if (!text.starts_with('#'))
      fail("only references into the schema itself ('#/...') are followed");
    return text.substr(1);
  }

  /// `is_guarded`: something is written before this subschema, so a reference here cannot form an
  /// endless loop.
  Json schema(const Json& given, int depth, bool is_guarded = false) {
    if (++num_schemas_ > kMaxSubschemas)
      fail(fmt::format("more than {} subschemas", kMaxSubschemas));
    if (depth > kMaxSchemaDepth) fail(fmt::format("nested more than {} deep", kMaxSchemaDepth));
    if (given.is_boolean()) {
      if (!given.get<bool>()) fail("false: nothing is valid");
      return Json::object();
    }
    if (!given.is_object()) fail("a schema is an object or a boolean");
    for (const std::string_view name : kNotEnforced) {
      if (given.contains(name)) fail(fmt::format("`{}` cannot be enforced while generating", name));
    }
    if (given.contains("$ref")) return reference(given, depth, is_guarded);
    if (given.contains("allOf")) return all_of(given, depth, is_guarded);
    if (given.contains("anyOf") || given.contains("oneOf")) return any_of(given, depth, is_guarded);
    if (given.contains("const") || given.contains("enum")) return values(given);
    return typed(given, depth);
  }

  Json reference(const Json& given, int depth, bool is_guarded) {
    const std::string pointer = pointer_of(given["$ref"]);
    const Json rest = without_ref(given);
    if (!rest.empty())
      return schema(merged(dereferenced(given["$ref"]), rest), depth + 1, is_guarded);
    (void)target(pointer);
    auto [found, is_new] = names_.try_emplace(pointer, fmt::format("d{}", names_.size()));
    if (is_new) pending_.emplace_back(found->second, pointer);
    if (!is_guarded) unguarded_[current_].insert(found->second);
    return {{"$ref", "#/$defs/" + found->second}};
  }

  Json dereferenced(const Json& reference) {
    if (++num_inlined_ > kMaxSchemaDepth)
      fail("too many references to merge with what stands beside them");
    Json found = target(pointer_of(reference));
    if (!found.is_object()) fail("$ref beside other keywords must point to an object");
    return found;
  }

  // Names the place in the schema when `step` refuses it.
  template <typename Step>
  auto here(Step step) const -> decltype(step()) {
    try {
      return step();
    } catch (const InvalidArgument& error) {
      fail(error.what());
    }
  }

  Json merged(const Json& left, const Json& right) const {
    return here([&] { return merge_schemas(left, right); });
  }

  [[nodiscard]] std::optional<int64_t> count(const Json& given, const char* name) const {
    return here([&] { return count_member(given, name); });
  }

  Json all_of(const Json& given, int depth, bool is_guarded) {
    const Json& parts = list(given, "allOf");
    Json whole = assertions_of(given);
    whole.erase("allOf");
    for (const Json& part : parts) {
      if (part == true) continue;
      if (!part.is_object()) fail("allOf needs objects");
      Json resolved = part;
      while (resolved.contains("$ref")) {
        const Json rest = without_ref(resolved);
        resolved = merged(dereferenced(resolved["$ref"]), rest);
      }
      whole = merged(whole, assertions_of(resolved));
    }
    return schema(whole, depth + 1, is_guarded);
  }

  Json any_of(const Json& given, int depth, bool is_guarded) {
    if (given.contains("anyOf") && given.contains("oneOf"))
      fail("anyOf beside oneOf cannot be enforced");
    const bool is_exclusive = given.contains("oneOf");
    const char* name = is_exclusive ? "oneOf" : "anyOf";
    const Json& branches = list(given, name);
    if (branches.size() > kMaxChoices)
      fail(fmt::format("{} has more than {} branches", name, kMaxChoices));
    Json rest = assertions_of(given);
    rest.erase(name);
    Json resolved = Json::array();
    Json written = Json::array();
    for (size_t i = 0; i < branches.size(); ++i) {
      if (branches[i] == false) continue;
      const Step step(*this, fmt::format("{}/{}", name, i));
      Json branch = branches[i] == true ? Json::object() : branches[i];
      if (!branch.is_object()) fail("a schema is an object or a boolean");
      if (!rest.empty() && branch.contains("$ref")) {
        branch = merged(dereferenced(branch["$ref"]), without_ref(branch));
      }
      if (!rest.empty()) branch = merged(rest, assertions_of(branch));
      if (is_exclusive) {
        resolved.push_back(branch.contains("$ref") ? target(pointer_of(branch["$ref"])) : branch);
      }
      written.push_back(schema(branch, depth + 1, is_guarded));
    }
    if (written.empty()) fail(fmt::format("{} leaves nothing", name));
    if (is_exclusive) require_disjoint(resolved);
    if (written.size() == 1) return written[0];
    return {{"anyOf", std::move(written)}};
  }

  void require_disjoint(const Json& branches) const {
    for (size_t i = 0; i < branches.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (!are_disjoint(branches[i], branches[j])) {
          fail(fmt::format(
              "the branches {} and {} of oneOf may overlap: give them different types, or "
              "a required property with different constants; or use anyOf",
              j,
              i));
        }
      }
    }
  }

  const Json& list(const Json& given, const char* name) const {
    const Json& found = given[name];
    const bool is_list = found.is_array() && !found.empty();
    if (!is_list) fail(fmt::format("{} must be an array that is not empty", name));
    return found;
  }

  Json values(const Json& given) {
    Json rest = assertions_of(given);
    rest.erase("const");
    rest.erase("enum");
    const Json type = rest.value("type", Json());
    rest.erase("type");
    if (!rest.empty()) {
      fail(fmt::format("`{}` beside const or enum cannot be enforced", rest.begin().key()));
    }
    Json allowed = given.contains("const") ? Json::array({given["const"]}) : list(given, "enum");
    num_values_ += allowed.size();
    if (num_values_ > kMaxChoices) fail(fmt::format("more than {} values in enums", kMaxChoices));
    if (given.contains("const") && given.contains("enum") &&
        std::find(given["enum"].begin(), given["enum"].end(), given["const"]) ==
            given["enum"].end()) {
      fail("const is not in enum");
    }
    Json kept = Json::array();
    for (const Json& value : allowed) {
      if (type.is_null() || is_of_type(value, type)) kept.push_back(value);
    }
    if (kept.empty()) fail("no value of enum has the type");
    return {{"enum", std::move(kept)}};
  }

  Json typed(const Json& given, int depth) {
    const std::vector<std::string> types = types_of(given);
    if (types.empty()) return Json::object();
    if (types.size() == 1) return of_type(types[0], given, depth);
    Json branches = Json::array();
    for (const std::string& type : types) branches.push_back(of_type(type, given, depth));
    return {{"anyOf", std::move(branches)}};
  }

  /// Without types, any value is valid. Keywords without a type only speak about values of their
  /// type; the rewritten schema allows only these types.
  std::vector<std::string> types_of(const Json& given) const {
    std::vector<std::string> types;
    if (const auto found = given.find("type"); found != given.end()) {
      for (const Json& type : found->is_array() ? *found : Json::array({*found})) {
        if (!type.is_string()) fail("type must be a string or an array of strings");
        types.push_back(type.get<std::string>());
      }
      if (types.empty()) fail("type must not be empty");
      return types;
    }
    if (has_any(given, kObjectKeywords)) types.emplace_back("object");
    if (has_any(given, kArrayKeywords)) types.emplace_back("array");
    if (has_any(given, kStringKeywords)) types.emplace_back("string");
    if (has_any(given, kNumberKeywords)) types.emplace_back("number");
    return types;
  }

  Json of_type(const std::string& type, const Json& given, int depth) {
    if (type == "null" || type == "boolean") return {{"type", type}};
    if (type == "string") return here([&] { return string_schema(given); });
    if (type == "integer" || type == "number") {
      return here([&] { return number_schema(type, given); });
    }
    if (type == "array") return array(given, depth);
    if (type == "object") return object(given, depth);
    fail(fmt::format("'{}' is not a type", type));
  }

  Json array(const Json& given, int depth) {
    if (given.value("uniqueItems", Json(false)) != false) {
      fail("`uniqueItems` cannot be enforced while generating");
    }
    Json written = {{"type", "array"}};
    const Json items = given.value("items", Json(true));
    const bool is_tuple = items.is_array();
    const Json prefix = is_tuple ? items : given.value("prefixItems", Json::array());
    const Json rest = is_tuple ? given.value("additionalItems", Json(true)) : items;
    if (!prefix.is_array()) fail("prefixItems must be an array");
    const int64_t least = count(given, "minItems").value_or(0);
    const std::optional<int64_t> most = count(given, "maxItems");
    const auto num_first = static_cast<int64_t>(prefix.size());
    if (most && *most < least) fail("maxItems is below minItems");
    if (most && *most < num_first) fail("maxItems is below the number of prefixItems");
    if (rest == false && least > num_first)
      fail("minItems is above the number of items that may be");
    for (const Json& item : prefix) {
      const Step step(*this, "prefixItems");
      written["prefixItems"].push_back(schema(item, depth + 1, true));
    }
    if (rest == false || (most && *most == num_first)) {
      if (num_first == 0) return {{"enum", Json::array({Json::array()})}};
      written["items"] = false;
      return written;
    }
    const Step step(*this, "items");
    written["items"] = schema(rest, depth + 1, true);
    if (least > num_first || (least > 0 && num_first == 0)) written["minItems"] = least;
    if (most) written["maxItems"] = *most;
    return written;
  }

  Json object(const Json& given, int depth) {
    const Json properties = given.value("properties", Json::object());
    if (!properties.is_object()) fail("properties must be an object");
    std::set<std::string> required;
    for (const Json& name : given.value("required", Json::array())) {
      if (!name.is_string()) fail("required must be an array of strings");
      required.insert(name.get<std::string>());
    }
    Json others =
        given.value("additionalProperties", given.value("unevaluatedProperties", Json(true)));
    const Json patterns = given.value("patternProperties", Json::object());
    if (!patterns.is_object()) fail("patternProperties must be an object");
    const int64_t least = count(given, "minProperties").value_or(0);
    const std::optional<int64_t> most = count(given, "maxProperties");
    if (most && *most < least) fail("maxProperties is below minProperties");

    if (properties.empty() && required.empty())
      return open_object(others, patterns, least, most, depth);
    if (!patterns.empty())
      fail("patternProperties beside properties or required cannot be enforced");
    Json written = {{"type", "object"}, {"properties", Json::object()}};
    for (const auto& [name, value] : properties.items()) {
      check_name(name);
      if (value == false && !required.contains(name)) continue;
      const Step step(*this, name);
      written["properties"][name] = schema(value, depth + 1, true);
    }
    for (const std::string& name : required) {
      check_name(name);
      if (written["properties"].contains(name)) continue;
      if (others == false) fail(fmt::format("'{}' is required and not allowed", name));
      const Step step(*this, name);
      written["properties"][name] = schema(others, depth + 1, true);
    }
    if (least > static_cast<int64_t>(required.size())) {
      if (least > static_cast<int64_t>(written["properties"].size())) {
        fail("minProperties is above the number of properties");
      }
      written["minProperties"] = least;
    }
    if (most && *most < static_cast<int64_t>(written["properties"].size())) {
      if (*most < static_cast<int64_t>(required.size()))
        fail("maxProperties is below the number of required");
      written["maxProperties"] = *most;
    }
    written["required"] = required;
    written["additionalProperties"] = false;
    return written;
  }

  void check_name(const std::string& name) const {
    const bool is_plain = std::ranges::none_of(
        name, [](unsigned char c) { return c == '"' || c == '\\' || c < 0x20; });
    if (!is_plain)
      fail("property names with quotes, backslashes or control characters are not supported");
  }

  /// An object that names no property. A name that stands twice counts once, so a lower bound
  /// above one cannot be enforced.
  Json open_object(const Json& others,
                   const Json& patterns,
                   int64_t least,
                   std::optional<int64_t> most,
                   int depth) {
    if (least > 1) fail("minProperties above what `required` names cannot be enforced");
    if (most == 0) return {{"enum", Json::array({Json::object()})}};
    Json written = {{"type", "object"}};
    if (least == 1) written["minProperties"] = 1;
    if (most) written["maxProperties"] = *most;
    if (patterns.empty()) {
      if (others == false) return {{"enum", Json::array({Json::object()})}};
      const Step step(*this, "additionalProperties");
      written["additionalProperties"] =
          others == true ? Json(true) : schema(others, depth + 1, true);
      return written;
    }
    if (patterns.size() > 1) fail("more than one of patternProperties cannot be enforced");
    const Step step(*this, "patternProperties");
    const auto pattern = patterns.begin();
    const Json key = here([&] { return pattern_schema(pattern.key()); });
    if (!key.contains("pattern")) fail("patternProperties needs patterns that match some text");
    written["patternProperties"] = {
        {key["pattern"].get<std::string>(), schema(pattern.value(), depth + 1, true)}};
    written["additionalProperties"] = false;
    return written;
  }

  const Json* root_;  // the caller's
  std::vector<std::string> path_{"#"};
  std::map<std::string, std::string> names_;                 // of definitions, by pointer
  std::deque<std::pair<std::string, std::string>> pending_;  // name, pointer
  ReferenceGraph unguarded_;  // references at the start of a definition
  std::string current_ = "#";
  int num_schemas_ = 0;
  int num_inlined_ = 0;
  size_t num_values_ = 0;
};

}  // namespace

Json normalise_schema(const Json& schema) { return SchemaWriter(schema).write(); }

}  // namespace reprise::structured_output
