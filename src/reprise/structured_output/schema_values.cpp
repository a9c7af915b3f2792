// The part of SchemaWriter that writes arrays and objects.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "reprise/structured_output/output_spec.h"
#include "reprise/structured_output/schema_writer.h"

namespace reprise::structured_output {
namespace {

std::string quoted(const std::string& name) {
  return Json(name).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Beyond this many names, objects get no members besides the named ones.
constexpr size_t kMaxNamesBesideOthers = 200;
constexpr size_t kMaxDistinct = 10'000;

}  // namespace

NodeId SchemaWriter::array(const Json& schema, const Context& context) {
  (void)context;
  ArrayNode node;
  node.least = count_member(schema, "minItems").value_or(0);
  node.most = count_member(schema, "maxItems");
  node.is_unique = schema.value("uniqueItems", Json(false)) == true;
  if (node.most && *node.most < node.least) throw NothingIsValid("maxItems is below minItems");
  add_items(schema, {.keeps_texts_apart = node.is_unique}, node);
  const bool ends = node.item == NodeId::none;
  if (ends && static_cast<size_t>(node.least) > node.first_items.size()) {
    throw NothingIsValid("minItems is above the number of possible items");
  }
  if (node.is_unique && node.item != NodeId::none) {
    if (const auto number = num_values(node.item)) {
      const auto limit = static_cast<int64_t>(*number);
      node.most = std::min(node.most.value_or(limit), limit);
      if (*node.most < node.least)
        throw NothingIsValid("minItems is above the number of distinct items");
    }
  }
  if (node.least_contained > 0 && node.most && *node.most < node.least_contained) {
    throw NothingIsValid("minContains is above maxItems");
  }
  const bool has_contained = node.contained != NodeId::none;
  program_->arrays.push_back(std::move(node));
  const NodeId made = program_->add(AnswerNode::Kind::array, program_->arrays.size() - 1);
  if (!schema.contains("contains")) return made;
  const Json least_contained = schema.value("minContains", Json(1));
  const bool is_held = least_contained == 0 || has_contained;
  if (is_held && !schema.contains("maxContains")) return made;
  Json rules = {{"contains", schema["contains"]}, {"minContains", least_contained}};
  if (schema.contains("maxContains")) rules["maxContains"] = schema["maxContains"];
  return checked(made, rules);
}

void SchemaWriter::add_items(const Json& schema, const Context& context, ArrayNode& node) {
  const Json items = schema.value("items", Json(true));
  const bool is_tuple = items.is_array();
  const Json prefix = is_tuple ? items : schema.value("prefixItems", Json::array());
  const Json rest = is_tuple ? schema.value("additionalItems", Json(true)) : items;
  if (!prefix.is_array()) fail("prefixItems must be an array");
  for (size_t i = 0; i < prefix.size(); ++i) {
    const Step step(*this, fmt::format("prefixItems/{}", i));
    try {
      node.first_items.push_back(node_of(prefix[i], context));
    } catch (const NothingIsValid&) {
      if (node.least > static_cast<int64_t>(i)) throw;
      node.most =
          std::min<int64_t>(node.most.value_or(static_cast<int64_t>(i)), static_cast<int64_t>(i));
      return;
    }
  }
  if (rest == false) return;
  const Step step(*this, "items");
  try {
    node.item = node_of(rest, context);
  } catch (const NothingIsValid&) {
    if (node.least > static_cast<int64_t>(node.first_items.size())) throw;
    return;
  }
  if (schema.contains("contains")) add_contained(schema, rest, node);
}

void SchemaWriter::add_contained(const Json& schema, const Json& items, ArrayNode& node) {
  node.least_contained = count_member(schema, "minContains").value_or(1);
  if (node.least_contained == 0) return;
  const Step step(*this, "contains");
  node.contained = node_of({{"allOf", Json::array({items, schema["contains"]})}},
                           {.keeps_texts_apart = node.is_unique});
}

/// The number of different values that a node writes; nothing: many.
std::optional<size_t> SchemaWriter::num_values(NodeId id) const {
  const AnswerNode& node = program_->at(id);
  const auto index = static_cast<size_t>(node.index);
  if (node.kind == AnswerNode::Kind::literals) return program_->literals[index].texts.size();
  if (node.kind == AnswerNode::Kind::number)
    return program_->numbers[index].num_values(kMaxDistinct);
  if (node.kind == AnswerNode::Kind::text) {
    const TextLeaf& leaf = program_->texts[index];
    if (leaf.is_counted()) return {};
    return leaf.automaton->num_texts(kMaxDistinct);
  }
  if (node.kind != AnswerNode::Kind::choice || program_->choices[index].empty()) return {};
  size_t sum = 0;
  for (const NodeId way : program_->choices[index]) {
    const std::optional<size_t> number = num_values(way);
    if (!number) return {};
    sum += *number;
  }
  return sum;
}

/// The meaning of the keywords of an object.
struct SchemaWriter::Members {
  Json properties;
  Json patterns;
  Json others;  // additionalProperties
  Json names;   // propertyNames; null: any
  std::set<std::string> required;
  std::set<std::string> implied;  // properties that `properties` does not have
  bool has_all_names = false;     // the properties are all names that are allowed
  bool has_others = false;        // `others` says something of its own
};

NodeId SchemaWriter::object(const Json& schema) {
  const Json none = Json::object();
  Members members{.properties = schema.value("properties", none),
                  .patterns = schema.value("patternProperties", none),
                  .others = schema.value("additionalProperties",
                                         schema.value("unevaluatedProperties", Json(true))),
                  .names = schema.value("propertyNames", Json())};
  if (!members.properties.is_object()) fail("properties must be an object");
  if (!members.patterns.is_object()) fail("patternProperties must be an object");
  for (const Json& name : schema.value("required", Json::array())) {
    if (!name.is_string()) fail("required must be an array of strings");
    members.required.insert(name.get<std::string>());
  }
  ObjectNode node;
  node.least = count_member(schema, "minProperties").value_or(0);
  node.most = count_member(schema, "maxProperties");
  if (node.most && *node.most < node.least)
    throw NothingIsValid("maxProperties is below minProperties");
  if (node.most && *node.most < static_cast<int64_t>(members.required.size())) {
    throw NothingIsValid("maxProperties is below the number of required");
  }
  add_properties(members, node);
  const bool has_named = !node.properties.empty();
  members.has_others = !members.patterns.empty() || !has_named ||
                       (members.others.is_object() && !members.others.empty()) ||
                       node.least > static_cast<int64_t>(node.properties.size());
  members.has_others = members.has_others && !members.has_all_names;
  if (members.has_others && node.keys.texts.size() <= kMaxNamesBesideOthers)
    add_extras(members, node);
  if (node.extras.empty() && node.least > static_cast<int64_t>(node.properties.size())) {
    throw NothingIsValid("minProperties is above the number of possible properties");
  }
  program_->objects.push_back(std::move(node));
  return program_->add(AnswerNode::Kind::object, program_->objects.size() - 1);
}

void SchemaWriter::add_properties(Members& members, ObjectNode& node) {
  // If propertyNames lists names, each of them is an optional property.
  if (members.names.is_object()) {
    const MergedSchema names = expander_.expanded(members.names);
    const bool is_list =
        names.is_exact && names.schema.contains("enum") && names.schema["enum"].is_array();
    if (is_list) {
      for (const Json& name : names.schema["enum"]) {
        if (!name.is_string() || members.properties.contains(name.get<std::string>())) continue;
        members.properties[name.get<std::string>()] = members.others;
        members.implied.insert(name.get<std::string>());
      }
      members.has_all_names = true;
    }
  }
  for (const std::string& name : members.required) {
    if (members.properties.contains(name)) continue;
    members.properties[name] = members.others;
    members.implied.insert(name);
  }
  num_properties_ += members.properties.size();
  if (num_properties_ > kMaxProperties)
    fail(fmt::format("more than {} properties", kMaxProperties));
  for (const auto& [name, rule] : members.properties.items())
    add_property(members, name, rule, node);
  std::vector<std::pair<std::string, int32_t>> keys;
  for (size_t i = 0; i < node.keys.texts.size(); ++i) {
    keys.emplace_back(node.keys.texts[i], static_cast<int32_t>(i));
  }
  std::sort(keys.begin(), keys.end());
  for (size_t i = 0; i < keys.size(); ++i) {
    node.keys.texts[i] = keys[i].first;
    node.property_of_key.push_back(keys[i].second);
  }
}

void SchemaWriter::add_property(Members& members,
                                const std::string& name,
                                const Json& rule,
                                ObjectNode& node) {
  const bool is_required = members.required.contains(name);
  const Step step(*this, name);
  try {
    Json rules = Json::array();
    for (const auto& [pattern, value] : members.patterns.items()) {
      const Json excluded = {{"not", {{"pattern", pattern}}}};
      const bool may_match = !validator_->is_valid(Json(name), excluded);
      if (may_match) rules.push_back(value);
    }
    if (!members.names.is_null() && !validator_->is_valid(Json(name), members.names)) {
      throw NothingIsValid("propertyNames does not allow this name");
    }
    // additionalProperties does not apply to names that a pattern matches.
    if (rules.empty() || !members.implied.contains(name)) rules.push_back(rule);
    const NodeId value =
        rules.size() == 1 ? node_of(rules[0], {}) : node_of({{"allOf", rules}}, {});
    node.properties.push_back({.value = value, .is_required = is_required});
    node.keys.texts.push_back(quoted(name));
  } catch (const NothingIsValid&) {
    if (is_required) throw;
  }
}

void SchemaWriter::add_extras(Members& members, ObjectNode& node) {
  std::vector<std::string> patterns;
  for (const auto& [pattern, rule] : members.patterns.items()) patterns.push_back(pattern);
  // Names are divided into those that match exactly one pattern and those that match none.
  for (size_t i = 0; i <= patterns.size(); ++i) {
    const bool is_other = i == patterns.size();
    const Json& rule = is_other ? members.others : members.patterns[patterns[i]];
    if (rule == false || (is_other && !members.patterns.empty() && members.others == true &&
                          !node.properties.empty())) {
      continue;
    }
    RegexTerms terms(settings_->limit);
    std::vector<TermId> all{writable_texts(terms)};
    for (size_t j = 0; j < patterns.size(); ++j) {
      const Reading reading = i == j ? Reading::narrow : Reading::wide;
      const TermId term = regex_term(terms, patterns[j], Anchoring::anywhere, reading);
      all.push_back(i == j ? term : terms.complement(term));
    }
    for (const auto& [name, value] : members.properties.items()) {
      all.push_back(terms.complement(literal_term(terms, name)));
    }
    if (!members.names.is_null()) {
      const auto names = text_term(terms, validator_->root(), members.names, Reading::narrow);
      if (!names) fail("propertyNames has keywords that cannot be enforced for names");
      if (*names != length_term(terms, 0, {})) all.push_back(*names);
    }
    add_extra(terms.all_of(std::move(all)), terms, rule, node);
  }
  // Names are distinct, so there cannot be more members than names.
  auto limit = static_cast<int64_t>(node.properties.size());
  for (const ObjectNode::Extra& extra : node.extras) {
    const TextLeaf& key = program_->texts[static_cast<size_t>(extra.key)];
    const auto number = key.is_counted() ? std::nullopt : key.automaton->num_texts(kMaxDistinct);
    if (!number) return;
    limit += static_cast<int64_t>(*number);
  }
  node.most = std::min(node.most.value_or(limit), limit);
  if (*node.most < node.least)
    throw NothingIsValid("minProperties is above the number of possible names");
}

void SchemaWriter::add_extra(TermId names, RegexTerms& terms, const Json& rule, ObjectNode& node) {
  const Step step(*this, "additionalProperties");
  try {
    TextLeaf key = names == writable_texts(terms) ? plain_text({.keeps_texts_apart = true})
                                                  : limited(terms, names, 0, {});
    const NodeId value = node_of(rule, {});
    node.extras.push_back({.key = add_text(std::move(key)), .value = value});
  } catch (const NothingIsValid&) {
  }
}

/// Refuses a choice that leads to itself without writing anything: it has no answer, or too many
/// ways.
void SchemaWriter::require_progress(NodeId root) const {
  std::vector<uint8_t> marks(program_->nodes.size());
  std::vector<std::pair<NodeId, bool>> stack;
  for (size_t i = 0; i < program_->nodes.size(); ++i)
    stack.emplace_back(static_cast<NodeId>(i), false);
  stack.emplace_back(root, false);
  while (!stack.empty()) {
    const auto [id, is_over] = stack.back();
    stack.pop_back();
    uint8_t& mark = marks[static_cast<size_t>(id)];
    if (is_over) {
      mark = 2;
      continue;
    }
    if (mark == 2) continue;
    if (mark == 1) continue;
    mark = 1;
    stack.emplace_back(id, true);
    const AnswerNode& node = program_->at(id);
    const auto visit = [&](NodeId next) {
      if (marks[static_cast<size_t>(next)] == 1) fail("a $ref leads to itself and nothing else");
      stack.emplace_back(next, false);
    };
    if (node.kind == AnswerNode::Kind::choice) {
      for (const NodeId way : program_->choices[static_cast<size_t>(node.index)]) visit(way);
    }
    if (node.kind == AnswerNode::Kind::checked) {
      visit(program_->checks[static_cast<size_t>(node.index)].value);
    }
  }
}

}  // namespace reprise::structured_output
