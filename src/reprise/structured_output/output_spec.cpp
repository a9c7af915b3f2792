#include "reprise/structured_output/output_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/base/text/utf8.h"
#include "reprise/structured_output/json_schema.h"
#include "reprise/structured_output/regex_dialect.h"
#include "reprise/structured_output/schema_price.h"
#include "reprise/structured_output/structural_tag.h"

namespace reprise::structured_output {
namespace {

Json parse(const std::string& text, std::string_view what) {
  return parse_json(text, what, {.max_bytes = kMaxSpecBytes, .max_depth = kMaxSchemaDepth});
}

std::vector<std::string> checked_choices(const std::vector<std::string>& choices) {
  if (choices.empty()) throw InvalidArgument("choice has no entries");
  if (choices.size() > kMaxChoices) {
    throw InvalidArgument(
        fmt::format("choice has {} entries, more than {}", choices.size(), kMaxChoices));
  }
  std::vector<std::string> kept;
  size_t num_bytes = 0;
  for (const std::string& choice : choices) {
    num_bytes += choice.size();
    if (choice.empty()) throw InvalidArgument("choice has an empty entry");
    if (std::find(kept.begin(), kept.end(), choice) == kept.end()) kept.push_back(choice);
  }
  if (num_bytes > kMaxSpecBytes) {
    throw InvalidArgument(fmt::format("choice has more than {} bytes", kMaxSpecBytes));
  }
  return kept;
}

/// Brackets and repetitions of an EBNF text, outside of its strings, sets and comments.
void check_grammar(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '"' || c == '[') {
      const char end = c == '"' ? '"' : ']';
      for (++i; i < text.size() && text[i] != end; ++i) {
        if (text[i] == '\\') ++i;
      }
    } else if (c == '(' && ++depth > kMaxNesting) {
      throw InvalidArgument(fmt::format("the grammar nests groups more than {} deep", kMaxNesting));
    } else if (c == ')') {
      --depth;
    } else if (c >= '0' && c <= '9' && i > 0 &&
               (text[i - 1] == '{' || text[i - 1] == ',' || text[i - 1] == ' ')) {
      int64_t value = 0;
      for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
        value = std::min<int64_t>(value * 10 + (text[i] - '0'), kMaxRepetition + 1);
      }
      if (value > kMaxRepetition) {
        throw InvalidArgument(
            fmt::format("the grammar repeats more than {} times", kMaxRepetition));
      }
      --i;
    }
  }
}

}  // namespace

std::string_view to_string(OutputSpec::Kind kind) {
  switch (kind) {
    case OutputSpec::Kind::json_object:
      return "json_object";
    case OutputSpec::Kind::json_schema:
      return "json";
    case OutputSpec::Kind::regex:
      return "regex";
    case OutputSpec::Kind::choice:
      return "choice";
    case OutputSpec::Kind::grammar:
      return "grammar";
    case OutputSpec::Kind::structural_tag:
      return "structural_tag";
  }
  return "unknown";
}

OutputSpec normalise_spec(const OutputSpec& spec) {
  if (spec.text.size() > kMaxSpecBytes) {
    throw InvalidArgument(fmt::format(
        "{} has {} bytes, more than {}", to_string(spec.kind), spec.text.size(), kMaxSpecBytes));
  }
  if (!is_valid_utf8(spec.text)) throw InvalidArgument("the spec is not UTF-8");
  OutputSpec normal = spec;
  switch (spec.kind) {
    case OutputSpec::Kind::json_object:
      normal.text = R"({"type":"object","additionalProperties":true})";
      break;
    case OutputSpec::Kind::json_schema: {
      const Json schema = parse(spec.text, "JSON schema");
      check_price(schema);
      normal.text = normalise_schema(schema).dump();
      break;
    }
    case OutputSpec::Kind::regex:
      normal.text = normalise_regex(spec.text, PatternContext::plain).text;
      break;
    case OutputSpec::Kind::choice:
      normal.choices = checked_choices(spec.choices);
      break;
    case OutputSpec::Kind::grammar:
      check_grammar(spec.text);
      break;
    case OutputSpec::Kind::structural_tag:
      normal.text = normalise_structural_tag(parse(spec.text, "structural tag")).dump();
      break;
  }
  return normal;
}

}  // namespace reprise::structured_output
