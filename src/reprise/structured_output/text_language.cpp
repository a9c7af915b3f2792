#include "reprise/structured_output/text_language.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/text/utf8.h"
#include "reprise/structured_output/output_spec.h"
#include "reprise/structured_output/schema_merge.h"
#include "reprise/structured_output/schema_validator.h"

namespace reprise::structured_output {
namespace {

constexpr const char* kDate =
    "(?!0000)(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|"
    "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|"
    "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)";
constexpr const char* kTime =
    "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)";
constexpr const char* kDuration =
    "P(?:\\d{1,9}W|(?:\\d{1,9}D|\\d{1,9}M(?:\\d{1,9}D)?|\\d{1,9}Y(?:\\d{1,9}M(?:\\d{1,9}D)?)?)"
    "(?:T(?:\\d{1,9}H(?:\\d{1,9}M(?:\\d{1,9}S)?)?|\\d{1,9}M(?:\\d{1,9}S)?|\\d{1,9}S))?|"
    "T(?:\\d{1,9}H(?:\\d{1,9}M(?:\\d{1,9}S)?)?|\\d{1,9}M(?:\\d{1,9}S)?|\\d{1,9}S))";
// A label has at most 63 characters, and a name at most 253. Shorter labels, and fewer of them,
// satisfy both limits.
constexpr const char* kLabel = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?";
// With these, all lengths are possible, so a limit on the length needs no states.
constexpr const char* kLabelOfAnyLength = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?";
constexpr const char* kAtoms = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";

std::string ipv6_pattern() {
  const std::string group = "[0-9a-fA-F]{1,4}";
  std::string pattern =
      fmt::format("(?:{0}:){{7}}{0}|(?:{0}:){{1,7}}:|:(?:(?::{0}){{1,7}}|:)", group);
  for (int before = 1; before <= 6; ++before) {
    pattern += fmt::format("|(?:{0}:){{1,{1}}}(?::{0}){{1,{2}}}", group, before, 7 - before);
  }
  return pattern;
}

std::string pattern_of_format(std::string_view format) {
  if (format == "date") return kDate;
  if (format == "time") return kTime;
  if (format == "date-time") return fmt::format("{}T{}", kDate, kTime);
  if (format == "duration") return kDuration;
  if (format == "uuid") return "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";
  if (format == "ipv4") {
    const std::string number = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
    return fmt::format("(?:{0}\\.){{3}}{0}", number);
  }
  if (format == "ipv6") return ipv6_pattern();
  if (format == "hostname") return fmt::format("{0}(?:\\.{0}){{0,6}}", kLabel);
  if (format == "email") {
    return fmt::format("{0}(?:\\.{0})*@{1}(?:\\.{1})+", kAtoms, kLabelOfAnyLength);
  }
  return {};
}

bool can_be_text(const Json& schema) {
  const auto type = schema.find("type");
  return type == schema.end() || is_of_type(Json(""), *type);
}

/// Keywords that do not concern texts, or that text_term() reads.
bool is_known(std::string_view name) {
  static constexpr std::array<std::string_view, 36> kKnown = {"$ref",
                                                              "type",
                                                              "enum",
                                                              "const",
                                                              "pattern",
                                                              "format",
                                                              "minLength",
                                                              "maxLength",
                                                              "allOf",
                                                              "anyOf",
                                                              "not",
                                                              "properties",
                                                              "required",
                                                              "additionalProperties",
                                                              "items",
                                                              "prefixItems",
                                                              "minItems",
                                                              "maxItems",
                                                              "uniqueItems",
                                                              "minimum",
                                                              "maximum",
                                                              "exclusiveMinimum",
                                                              "exclusiveMaximum",
                                                              "multipleOf",
                                                              "minProperties",
                                                              "maxProperties",
                                                              "patternProperties",
                                                              "propertyNames",
                                                              "additionalItems",
                                                              "contains",
                                                              "minContains",
                                                              "maxContains",
                                                              "dependentRequired",
                                                              "dependencies",
                                                              "dependentSchemas",
                                                              "unevaluatedProperties"};
  for (const std::string_view known : kKnown) {
    if (name == known) return true;
  }
  return false;
}

class TextReader {
 public:
  TextReader(RegexTerms& terms, const Json& root) : terms_(&terms), root_(&root) {}

  std::optional<TermId> read(const Json& schema, Reading reading, int depth) {
    if (depth > kMaxSchemaDepth) throw InvalidArgument("references lead in a circle");
    if (schema.is_boolean()) return schema == true ? any() : TermId::nothing;
    if (!schema.is_object()) throw InvalidArgument("a schema is an object or a boolean");
    const Json rules = assertions_of(schema);
    if (!can_be_text(rules)) return TermId::nothing;
    std::vector<TermId> all;
    for (const auto& [name, rule] : rules.items()) {
      if (!is_known(name)) return std::nullopt;
      const std::optional<TermId> term = keyword(name, rule, reading, depth);
      if (!term) return std::nullopt;
      all.push_back(*term);
    }
    const int64_t least = count_member(rules, "minLength").value_or(0);
    const std::optional<int64_t> most = count_member(rules, "maxLength");
    if (most && *most < least) return TermId::nothing;
    if (least > 0 || most) all.push_back(length_term(*terms_, least, most));
    const TermId whole = terms_->all_of(std::move(all));
    return whole == TermId::everything ? any() : whole;
  }

 private:
  TermId any() { return length_term(*terms_, 0, {}); }

  std::optional<TermId> keyword(const std::string& name,
                                const Json& rule,
                                Reading reading,
                                int depth) {
    if (name == "$ref") {
      if (!rule.is_string()) throw InvalidArgument("$ref must be a string");
      return read(referenced(*root_, rule.get<std::string>()), reading, depth + 1);
    }
    if (name == "const") return values(Json::array({rule}));
    if (name == "enum") return values(rule);
    if (name == "pattern") return patterns(rule, reading);
    if (name == "format" && reading == Reading::narrow) return formats(rule);
    if (name == "not") {
      const Reading other = reading == Reading::narrow ? Reading::wide : Reading::narrow;
      const std::optional<TermId> term = read(rule, other, depth + 1);
      return term ? std::optional(terms_->all_of({terms_->complement(*term), any()})) : term;
    }
    if (name != "allOf" && name != "anyOf") return TermId::everything;
    std::vector<TermId> parts;
    for (const Json& part : rule) {
      const std::optional<TermId> term = read(part, reading, depth + 1);
      if (!term) return term;
      parts.push_back(*term);
    }
    return name == "allOf" ? terms_->all_of(std::move(parts)) : terms_->any_of(std::move(parts));
  }

  TermId values(const Json& list) {
    std::vector<TermId> texts;
    for (const Json& value : list) {
      if (value.is_string()) {
        texts.push_back(literal_term(*terms_, value.get_ref<const std::string&>()));
      }
    }
    return terms_->any_of(std::move(texts));
  }

  TermId patterns(const Json& rule, Reading reading) {
    std::vector<TermId> all;
    for (const Json& one : rule.is_array() ? rule : Json::array({rule})) {
      if (!one.is_string()) throw InvalidArgument("pattern must be a string");
      all.push_back(
          regex_term(*terms_, one.get_ref<const std::string&>(), Anchoring::anywhere, reading));
    }
    return terms_->all_of(std::move(all));
  }

  TermId formats(const Json& rule) {
    std::vector<TermId> all;
    for (const Json& one : rule.is_array() ? rule : Json::array({rule})) {
      if (!one.is_string()) throw InvalidArgument("format must be a string");
      if (auto term = format_term(*terms_, one.get_ref<const std::string&>())) all.push_back(*term);
    }
    return terms_->all_of(std::move(all));
  }

  RegexTerms* terms_;
  const Json* root_;
};

}  // namespace

TermId literal_term(RegexTerms& terms, std::string_view text) {
  std::vector<uint32_t> code_points;
  for (size_t at = 0; at < text.size();) code_points.push_back(next_code_point(text, at));
  TermId term = TermId::text_end;
  for (size_t i = code_points.size(); i-- > 0;) {
    term = terms.joined(terms.set(CodePoints{{code_points[i], code_points[i]}}), term);
  }
  return term;
}

std::optional<TermId> format_term(RegexTerms& terms, std::string_view format) {
  const std::string pattern = pattern_of_format(format);
  if (pattern.empty()) return {};
  return regex_term(terms, pattern, Anchoring::whole_text, Reading::narrow);
}

std::optional<TermId> text_term(RegexTerms& terms,
                                const Json& root,
                                const Json& schema,
                                Reading reading) {
  return TextReader(terms, root).read(schema, reading, 0);
}

std::optional<int64_t> count_member(const Json& schema, const char* name) {
  const auto found = schema.find(name);
  if (found == schema.end()) return {};
  const bool is_count = found->is_number() && found->get<double>() >= 0 &&
                        std::floor(found->get<double>()) == found->get<double>();
  if (!is_count)
    throw InvalidArgument(fmt::format("{} must be an integer that is not negative", name));
  // No answer has this many characters, items or members. A larger upper limit changes nothing; a
  // larger lower limit allows no answer.
  constexpr double kBeyondAnswers = 1 << 20;
  if (std::string_view(name).starts_with("min") && found->get<double>() > kBeyondAnswers) {
    throw InvalidArgument(fmt::format("{} is above {}", name, kBeyondAnswers));
  }
  return static_cast<int64_t>(std::min(found->get<double>(), kBeyondAnswers));
}

}  // namespace reprise::structured_output
