#include "reprise/structured_output/schema_validator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/text/utf8.h"
#include "reprise/structured_output/output_spec.h"
#include "reprise/structured_output/regex_dialect.h"
#include "reprise/structured_output/schema_merge.h"

namespace reprise::structured_output {
namespace {

std::string without_percent_escapes(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      static constexpr std::string_view kHexDigits = "0123456789abcdef0123456789ABCDEF";
      const size_t known = at < text.size() ? kHexDigits.find(text[at]) : kHexDigits.npos;
      return known == kHexDigits.npos ? -1 : static_cast<int>(known % 16);
    };
    if (text[i] == '%' && digit(i + 1) >= 0 && digit(i + 2) >= 0) {
      plain += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

/// The schema with this `$id` or `$anchor`, or null.
const Json* named_schema(const Json& schema, const char* keyword, std::string_view name) {
  if (schema.is_object()) {
    const auto found = schema.find(keyword);
    if (found != schema.end() && found->is_string()) {
      std::string_view text = found->get_ref<const std::string&>();
      if (text.ends_with('#')) text.remove_suffix(1);
      if (text == name) return &schema;
    }
  }
  if (schema.is_structured()) {
    for (const Json& part : schema) {
      if (const Json* found = named_schema(part, keyword, name)) return found;
    }
  }
  return nullptr;
}

int compare_numbers(const Json& left, const Json& right) {
  if (left.is_number_integer() && right.is_number_integer()) {
    if (left.is_number_unsigned() != right.is_number_unsigned()) {
      const auto is_small = [](const Json& one) { return !one.is_number_unsigned(); };
      if (is_small(left) && left.get<int64_t>() < 0) return -1;
      if (is_small(right) && right.get<int64_t>() < 0) return 1;
    }
    if (left.is_number_unsigned() || right.is_number_unsigned()) {
      const auto a = left.get<uint64_t>();
      const auto b = right.get<uint64_t>();
      return a < b ? -1 : a > b ? 1 : 0;
    }
    const auto a = left.get<int64_t>();
    const auto b = right.get<int64_t>();
    return a < b ? -1 : a > b ? 1 : 0;
  }
  const auto a = left.get<long double>();
  const auto b = right.get<long double>();
  return a < b ? -1 : a > b ? 1 : 0;
}

bool is_multiple(const Json& value, const Json& of) {
  if (of.is_number_integer() && value.is_number_integer()) {
    const auto step = of.get<int64_t>();
    return step != 0 && value.get<int64_t>() % step == 0;
  }
  if (of.is_number_integer()) return std::fmod(value.get<double>(), of.get<double>()) == 0;
  const double quotient = value.get<double>() / of.get<double>();
  return std::floor(quotient) == quotient;
}

std::vector<uint32_t> code_points_of(const std::string& text) {
  std::vector<uint32_t> code_points;
  for (size_t at = 0; at < text.size();) code_points.push_back(next_code_point(text, at));
  return code_points;
}

}  // namespace

bool are_equal(const Json& left, const Json& right) {
  if (left.is_number() && right.is_number()) return compare_numbers(left, right) == 0;
  if (left.type() != right.type()) return false;
  if (left.is_array()) {
    return left.size() == right.size() &&
           std::equal(left.begin(), left.end(), right.begin(), are_equal);
  }
  if (!left.is_object()) return left == right;
  if (left.size() != right.size()) return false;
  return std::all_of(left.items().begin(), left.items().end(), [&right](const auto& item) {
    const auto found = right.find(item.key());
    return found != right.end() && are_equal(item.value(), *found);
  });
}

const Json& referenced(const Json& root, const std::string& reference) {
  const size_t hash = std::min(reference.find('#'), reference.size());
  const Json* base = &root;
  if (hash > 0) {
    base = named_schema(root, "$id", std::string_view(reference).substr(0, hash));
    if (base == nullptr) {
      // A relative name matches the end of an absolute one.
      const auto id = root.find("$id");
      const bool is_root = id != root.end() && id->is_string() &&
                           id->get_ref<const std::string&>().ends_with(reference.substr(0, hash));
      if (is_root) base = &root;
    }
  }
  const std::string place =
      hash < reference.size() ? without_percent_escapes(reference.substr(hash + 1)) : "";
  if (base != nullptr && !place.empty() && place[0] != '/') {
    base = named_schema(*base, "$anchor", place);
    if (base == nullptr) base = named_schema(root, "$id", "#" + place);
  } else if (base != nullptr && !place.empty()) {
    try {
      return base->at(Json::json_pointer(place));
    } catch (const Json::exception&) {
      base = nullptr;
    }
  }
  if (base == nullptr) {
    throw InvalidArgument(fmt::format(
        "$ref points to nothing: {} (only schemas inside the schema itself are followed)",
        reference));
  }
  return *base;
}

/// One validation.
class SchemaValidator::Run {
 public:
  explicit Run(const SchemaValidator& validator) : validator_(&validator) {}

  /// Whether the result depends on a point on which engines of regular expressions disagree.
  [[nodiscard]] bool is_unclear() const { return is_unclear_; }

  bool check(const Json& value, const Json& schema) {
    if (schema.is_boolean()) return schema.get<bool>();
    if (!schema.is_object()) throw InvalidArgument("a schema is an object or a boolean");
    if (++depth_ > 4 * kMaxSchemaDepth) throw InvalidArgument("references lead in a circle");
    const bool is_valid =
        std::all_of(schema.items().begin(), schema.items().end(), [&](const auto& item) {
          return keyword(value, schema, item.key(), item.value());
        });
    --depth_;
    return is_valid;
  }

 private:
  bool keyword(const Json& value, const Json& schema, const std::string& name, const Json& rule) {
    if (name == "$ref") return check(value, referenced(validator_->root_, rule.get<std::string>()));
    if (name == "type") return is_of_type(value, rule);
    if (name == "const") return are_equal(value, rule);
    if (name == "enum") {
      return std::any_of(
          rule.begin(), rule.end(), [&value](const Json& one) { return are_equal(value, one); });
    }
    if (name == "allOf" || name == "anyOf" || name == "oneOf") return joined(value, name, rule);
    if (name == "not") return !check(value, rule);
    if (name == "if") return condition(value, schema, rule);
    if (value.is_number()) return number(value, name, rule);
    if (value.is_string()) return text(value.get_ref<const std::string&>(), name, rule);
    if (value.is_array()) return array(value, schema, name, rule);
    if (value.is_object()) return object(value, schema, name, rule);
    return true;
  }

  bool joined(const Json& value, const std::string& name, const Json& rule) {
    size_t num_valid = 0;
    for (const Json& branch : rule) {
      if (check(value, branch)) ++num_valid;
    }
    if (name == "allOf") return num_valid == rule.size();
    return name == "anyOf" ? num_valid > 0 : num_valid == 1;
  }

  bool condition(const Json& value, const Json& schema, const Json& rule) {
    const char* branch = check(value, rule) ? "then" : "else";
    const auto found = schema.find(branch);
    return found == schema.end() || check(value, *found);
  }

  static bool number(const Json& value, const std::string& name, const Json& rule) {
    if (!rule.is_number()) return true;
    if (name == "minimum") return compare_numbers(value, rule) >= 0;
    if (name == "maximum") return compare_numbers(value, rule) <= 0;
    if (name == "exclusiveMinimum") return compare_numbers(value, rule) > 0;
    if (name == "exclusiveMaximum") return compare_numbers(value, rule) < 0;
    return name != "multipleOf" || is_multiple(value, rule);
  }

  bool matches(const std::string& pattern, const std::string& text) {
    const Match found = validator_->match(pattern, text);
    is_unclear_ = is_unclear_ || found == Match::unclear;
    return found == Match::yes;
  }

  bool text(const std::string& value, const std::string& name, const Json& rule) {
    if (name == "minLength") return count_code_points(value) >= rule.get<size_t>();
    if (name == "maxLength") return count_code_points(value) <= rule.get<size_t>();
    if (name != "pattern") return true;
    const Json patterns = rule.is_array() ? rule : Json::array({rule});
    return std::all_of(patterns.begin(), patterns.end(), [&](const Json& pattern) {
      return matches(pattern.get<std::string>(), value);
    });
  }

  bool array(const Json& value, const Json& schema, const std::string& name, const Json& rule) {
    if (name == "minItems") return value.size() >= rule.get<size_t>();
    if (name == "maxItems") return value.size() <= rule.get<size_t>();
    if (name == "uniqueItems") return rule == false || are_distinct(value);
    if (name == "contains") return contains(value, schema, rule);
    size_t from = 0;
    size_t to = value.size();
    const Json items = schema.value("items", Json(true));
    const Json prefix = items.is_array() ? items : schema.value("prefixItems", Json::array());
    if (name == "prefixItems" || (name == "items" && rule.is_array())) {
      to = std::min(to, prefix.size());
    } else if (name == (items.is_array() ? "additionalItems" : "items")) {
      from = std::min(to, prefix.size());
    } else {
      return true;
    }
    for (size_t i = from; i < to; ++i) {
      if (!check(value[i], rule.is_array() ? rule[i] : rule)) return false;
    }
    return true;
  }

  static bool are_distinct(const Json& value) {
    for (size_t i = 0; i < value.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (are_equal(value[i], value[j])) return false;
      }
    }
    return true;
  }

  bool contains(const Json& value, const Json& schema, const Json& rule) {
    size_t number = 0;
    for (const Json& item : value) {
      if (check(item, rule)) ++number;
    }
    const auto most = schema.find("maxContains");
    return number >= schema.value("minContains", size_t{1}) &&
           (most == schema.end() || number <= most->get<size_t>());
  }

  bool object(const Json& value, const Json& schema, const std::string& name, const Json& rule) {
    if (name == "minProperties") return value.size() >= rule.get<size_t>();
    if (name == "maxProperties") return value.size() <= rule.get<size_t>();
    if (name == "required") {
      return !rule.is_array() || std::all_of(rule.begin(), rule.end(), [&value](const Json& one) {
        return value.contains(one.get<std::string>());
      });
    }
    if (name == "properties") {
      return std::all_of(rule.items().begin(), rule.items().end(), [&](const auto& item) {
        const auto found = value.find(item.key());
        return found == value.end() || check(*found, item.value());
      });
    }
    if (name == "dependentRequired" || name == "dependentSchemas" || name == "dependencies") {
      return std::all_of(rule.items().begin(), rule.items().end(), [&](const auto& item) {
        if (!value.contains(item.key())) return true;
        return item.value().is_array() ? object(value, schema, "required", item.value())
                                       : check(value, item.value());
      });
    }
    return std::all_of(value.items().begin(), value.items().end(), [&](const auto& member) {
      return this->member(member.key(), member.value(), schema, name, rule);
    });
  }

  bool member(const std::string& key,
              const Json& value,
              const Json& schema,
              const std::string& name,
              const Json& rule) {
    if (name == "propertyNames") return check(Json(key), rule);
    const auto matches_a_pattern = [&](const Json& patterns, bool checks) {
      bool has_match = false;
      for (const auto& [pattern, wanted] : patterns.items()) {
        if (!matches(pattern, key)) continue;
        has_match = true;
        if (checks && !check(value, wanted)) return false;
      }
      return checks || has_match;
    };
    if (name == "patternProperties") return matches_a_pattern(rule, true);
    if (name != "additionalProperties") return true;
    if (schema.value("properties", Json::object()).contains(key)) return true;
    if (matches_a_pattern(schema.value("patternProperties", Json::object()), false)) return true;
    return check(value, rule);
  }

  const SchemaValidator* validator_;
  int depth_ = 0;
  bool is_unclear_ = false;
};

SchemaValidator::Pattern SchemaValidator::compiled(const std::string& pattern,
                                                   WorkLimit* limit) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = patterns_.find(pattern); found != patterns_.end()) return found->second;
  }
  const auto compile = [&](Reading reading) {
    RegexTerms terms(limit);
    const TermId term = regex_term(terms, pattern, Anchoring::anywhere, reading);
    return std::make_shared<const Automaton>(Automaton::of(terms, term));
  };
  const Pattern made{compile(Reading::narrow), compile(Reading::wide)};
  const std::lock_guard lock(mutex_);
  return patterns_.emplace(pattern, made).first->second;
}

/// Engines differ about \w and similar sets. A text that only some engines match is `unclear`.
SchemaValidator::Match SchemaValidator::match(const std::string& pattern,
                                              const std::string& text) const {
  const Pattern automata = compiled(pattern, nullptr);
  const std::vector<uint32_t> code_points = code_points_of(text);
  if (automata.narrow->matches(code_points)) return Match::yes;
  return automata.wide->matches(code_points) ? Match::unclear : Match::no;
}

void SchemaValidator::prepare(const Json& schema, WorkLimit* limit) const {
  if (schema.is_array()) {
    for (const Json& part : schema) prepare(part, limit);
  }
  if (!schema.is_object()) return;
  for (const auto& [name, value] : schema.items()) {
    if (name == "enum" || name == "const") continue;
    if (name == "pattern" && value.is_string()) (void)compiled(value.get<std::string>(), limit);
    if (name == "patternProperties" && value.is_object()) {
      for (const auto& [pattern, rule] : value.items()) (void)compiled(pattern, limit);
    }
    prepare(value, limit);
  }
}

bool SchemaValidator::is_valid(const Json& value, const Json& schema) const {
  try {
    Run run(*this);
    return run.check(value, schema) && !run.is_unclear();
  } catch (const Json::exception& error) {
    throw InvalidArgument(fmt::format("a keyword of the schema is malformed: {}", error.what()));
  }
}

}  // namespace reprise::structured_output
