#include "reprise/structured_output/schema_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/structured_output/output_spec.h"
#include "reprise/structured_output/schema_writer.h"

namespace reprise::structured_output {
namespace {

constexpr int kMaxSubschemas = 100'000;
constexpr size_t kBytesOfJson = 16;  // bytes in memory for each byte of its text
constexpr size_t kMaxJsonBytes = size_t{32} << 20;

template <size_t kCount>
bool has_any(const Json& schema, const std::array<std::string_view, kCount>& names) {
  return std::any_of(names.begin(), names.end(), [&schema](std::string_view name) {
    return schema.contains(name);
  });
}

constexpr std::array<std::string_view, 4> kStringKeywords = {
    "minLength", "maxLength", "pattern", "format"};
constexpr std::array<std::string_view, 5> kNumberKeywords = {
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"};
constexpr std::array<std::string_view, 7> kArrayKeywords = {
    "items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains"};
constexpr std::array<std::string_view, 8> kObjectKeywords = {"properties",
                                                             "required",
                                                             "additionalProperties",
                                                             "patternProperties",
                                                             "minProperties",
                                                             "maxProperties",
                                                             "propertyNames",
                                                             "unevaluatedProperties"};

}  // namespace

SchemaWriter::SchemaWriter(AnswerProgram& program, const Json& root, const TextSettings& settings)
    : program_(&program),
      settings_(&settings),
      validator_(std::make_shared<const SchemaValidator>(root)),
      expander_(validator_->root()) {}

NodeId SchemaWriter::write() {
  const NodeId whole = here([&] { return reference("#"); });
  while (!pending_.empty()) {
    const auto [reference, node] = pending_.front();
    pending_.pop_front();
    path_ = {reference};
    const NodeId target = node_of(referenced(validator_->root(), reference), {});
    program_->choices[static_cast<size_t>(program_->at(node).index)] = {target};
  }
  path_ = {"#"};
  here([&] { require_progress(whole); });
  return whole;
}

void SchemaWriter::fail(std::string_view what) const { throw InvalidArgument(placed(what)); }

std::string SchemaWriter::placed(std::string_view what) const {
  if (what.starts_with(kPlace)) return std::string(what);
  return fmt::format("{}{}: {}", kPlace, fmt::join(path_, "/"), what);
}

NodeId SchemaWriter::reference(const std::string& name) {
  const auto [found, is_new] = references_.try_emplace(name, NodeId::none);
  if (!is_new) return found->second;
  (void)referenced(validator_->root(), name);
  found->second = add_choice({});
  pending_.emplace_back(name, found->second);
  return found->second;
}

NodeId SchemaWriter::add_choice(std::vector<NodeId> ways) {
  program_->choices.push_back(std::move(ways));
  return program_->add(AnswerNode::Kind::choice, program_->choices.size() - 1);
}

NodeId SchemaWriter::node_of(const Json& schema, const Context& context) {
  if (++num_schemas_ > kMaxSubschemas) fail(fmt::format("more than {} subschemas", kMaxSubschemas));
  if (settings_->limit != nullptr) settings_->limit->count(16);
  if (depth_ > kMaxSchemaDepth) fail(fmt::format("nested more than {} deep", kMaxSchemaDepth));
  if (schema.is_object() && schema.contains("$ref") && schema["$ref"].is_string() &&
      assertions_of(schema).size() == 1 && !context.keeps_texts_apart) {
    return reference(schema["$ref"].get<std::string>());
  }
  std::string key = schema.dump();
  key += context.keeps_texts_apart ? '!' : ' ';
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  const NodeId node = here([&] { return expanded_node(schema, context); });
  known_.emplace(std::move(key), node);
  return node;
}

NodeId SchemaWriter::expanded_node(const Json& schema, const Context& context) {
  const Deeper deeper(depth_);
  const MergedSchema merged = expander_.expanded(schema);
  const NodeId node = flat_node(merged.schema, context);
  return merged.is_exact ? node : checked(node, schema);
}

NodeId SchemaWriter::checked(NodeId node, const Json& schema) {
  if (!has_checks_) {
    has_checks_ = true;
    validator_->prepare(validator_->root(), settings_->limit);
    program_->json_bytes += kBytesOfJson * validator_->root().dump().size();
  }
  require_readable(schema);
  program_->json_bytes += kBytesOfJson * schema.dump().size();
  if (program_->json_bytes > kMaxJsonBytes) {
    fail("too many parts of the schema have to be checked when they end");
  }
  program_->checks.push_back({node, schema, validator_});
  return program_->add(AnswerNode::Kind::checked, program_->checks.size() - 1);
}

/// The validator reads keywords only when an answer exists, so mistakes in them are reported here
/// first.
void SchemaWriter::require_readable(const Json& schema) const {
  validator_->prepare(schema, settings_->limit);
  for (const Json& value : {Json(), Json(1), Json("a"), Json::array({1}), Json{{"a", 1}}}) {
    (void)validator_->is_valid(value, schema);
  }
}

NodeId SchemaWriter::flat_node(const Json& schema, const Context& context) {
  if (schema.contains("anyOf")) return any_of(schema, context);
  if (schema.contains("enum")) return values(schema);
  const std::vector<std::string> types = types_of(schema);
  if (types.empty()) return any_value(context);
  std::vector<NodeId> ways;
  std::string why;
  for (const std::string& type : types) {
    try {
      ways.push_back(of_type(type, schema, context));
    } catch (const NothingIsValid& error) {
      why = error.what();
    }
  }
  if (ways.empty()) throw NothingIsValid(why);
  return ways.size() == 1 ? ways[0] : add_choice(std::move(ways));
}

NodeId SchemaWriter::any_of(const Json& schema, const Context& context) {
  Json rest = schema;
  rest.erase("anyOf");
  std::vector<NodeId> ways;
  std::string why = "anyOf leaves nothing";
  const Json& branches = schema["anyOf"];
  for (size_t i = 0; i < branches.size(); ++i) {
    const Step step(*this, fmt::format("anyOf/{}", i));
    try {
      const NodeId way = rest.empty()
                             ? node_of(branches[i], context)
                             : node_of({{"allOf", Json::array({rest, branches[i]})}}, context);
      if (std::find(ways.begin(), ways.end(), way) == ways.end()) ways.push_back(way);
    } catch (const NothingIsValid& error) {
      why = error.what();
    }
  }
  if (ways.empty()) throw NothingIsValid(why);
  return ways.size() == 1 ? ways[0] : add_choice(std::move(ways));
}

NodeId SchemaWriter::values(const Json& schema) {
  if (!schema["enum"].is_array()) fail("enum must be an array");
  if (schema["enum"].empty()) fail("enum must be an array that is not empty");
  num_values_ += schema["enum"].size();
  if (num_values_ > kMaxChoices) fail(fmt::format("more than {} values in enums", kMaxChoices));
  Json rules = schema;
  rules.erase("enum");
  std::vector<std::string> texts;
  for (const Json& value : schema["enum"]) {
    if (!rules.empty() && !validator_->is_valid(value, rules)) continue;
    texts.push_back(value.dump());
    if (value.is_string()) continue;
    if (value.is_number_float()) texts.back() = Json(value.get<double>()).dump();
  }
  if (texts.empty()) throw NothingIsValid("no value of enum fits the keywords beside it");
  return literals(std::move(texts));
}

NodeId SchemaWriter::literals(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  program_->literals.push_back({std::move(texts)});
  return program_->add(AnswerNode::Kind::literals, program_->literals.size() - 1);
}

/// Without `type`, any value is valid. A keyword without `type` only limits values of its own type;
/// the nodes write only the types of such keywords.
std::vector<std::string> SchemaWriter::types_of(const Json& schema) const {
  std::vector<std::string> types;
  if (const auto found = schema.find("type"); found != schema.end()) {
    for (const Json& type : found->is_array() ? *found : Json::array({*found})) {
      if (!type.is_string()) fail("type must be a string or an array of strings");
      types.push_back(type.get<std::string>());
    }
    if (types.empty()) fail("type must not be empty");
    return types;
  }
  if (has_any(schema, kObjectKeywords)) types.emplace_back("object");
  if (has_any(schema, kArrayKeywords)) types.emplace_back("array");
  if (has_any(schema, kStringKeywords)) types.emplace_back("string");
  if (has_any(schema, kNumberKeywords)) types.emplace_back("number");
  if (types.empty() && schema.contains("not")) {
    return {"object", "array", "string", "number", "boolean", "null"};
  }
  return types;
}

NodeId SchemaWriter::of_type(const std::string& type, const Json& schema, const Context& context) {
  if (type == "string") return text(schema, context);
  Json rules = schema;
  const Json unless = schema.value("not", Json());
  rules.erase("not");
  if (!unless.is_null() && unless.is_object()) {
    const Json excluded = assertions_of(unless);
    const Json types = excluded.value("type", Json());
    const auto is_excluded = [&](const Json& name) {
      return name == type || (type == "integer" && name == "number");
    };
    if (!types.is_null()) {
      const Json list = types.is_array() ? types : Json::array({types});
      const bool is_named = std::any_of(list.begin(), list.end(), is_excluded);
      if (is_named && excluded.size() == 1) throw NothingIsValid("`not` excludes the type");
      const bool may_meet =
          is_named ||
          (type == "number" && std::find(list.begin(), list.end(), Json("integer")) != list.end());
      if (!may_meet) return of_type(type, rules, context);
    }
  }
  if (type == "null" || type == "boolean") {
    std::vector<std::string> texts;
    for (const Json& value : {Json(), Json(true), Json(false)}) {
      if (is_of_type(value, type) && (unless.is_null() || !validator_->is_valid(value, unless))) {
        texts.push_back(value.dump());
      }
    }
    if (texts.empty()) throw NothingIsValid("`not` excludes all values of the type");
    return literals(std::move(texts));
  }
  if (!unless.is_null()) {
    // Without an exponent, a number that violates a rule can continue with other decimals.
    if (type == "number" && !has_any(rules, kNumberKeywords)) {
      rules["minimum"] = -999'999'999;
      rules["maximum"] = 999'999'999;
    }
    return checked(of_type(type, rules, context), {{"not", unless}});
  }
  if (type == "integer" || type == "number") return number(type, rules);
  if (type == "array") return array(rules, context);
  if (type == "object") return object(rules);
  fail(fmt::format("'{}' is not a type", type));
}

NodeId SchemaWriter::number(const std::string& type, const Json& schema) {
  program_->numbers.emplace_back(type, schema);
  return program_->add(AnswerNode::Kind::number, program_->numbers.size() - 1);
}

NodeId SchemaWriter::any_value(const Context& context) {
  NodeId& any = context.keeps_texts_apart ? any_distinct_value_ : any_value_;
  if (any != NodeId::none) return any;
  any = add_choice({});
  const NodeId node = any;
  const auto choice = static_cast<size_t>(program_->at(node).index);
  std::vector<NodeId> ways = {text(Json::object(), context),
                              number("number", Json::object()),
                              literals({"true", "false", "null"}),
                              object(Json::object()),
                              array(Json::object(), {})};
  program_->choices[choice] = std::move(ways);
  return node;
}

NodeId compile_schema(AnswerProgram& program, const Json& schema, const TextSettings& settings) {
  return SchemaWriter(program, schema, settings).write();
}

}  // namespace reprise::structured_output
