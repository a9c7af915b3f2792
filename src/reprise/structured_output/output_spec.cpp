#include "reprise/structured_output/output_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "reprise/base/error.h"
#include "reprise/base/text/utf8.h"

namespace reprise::structured_output {
namespace {

constexpr int kMaxGrammarRepetition = 4096;  // each becomes a state of the backend

/// Checks brackets and repetitions of an EBNF text, outside of its strings, sets and comments.
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
        value = std::min<int64_t>(value * 10 + (text[i] - '0'), kMaxGrammarRepetition + 1);
      }
      if (value > kMaxGrammarRepetition) {
        throw InvalidArgument(
            fmt::format("the grammar repeats more than {} times", kMaxGrammarRepetition));
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

void check_spec(const OutputSpec& spec) {
  if (spec.text.size() > kMaxSpecBytes) {
    throw InvalidArgument(fmt::format(
        "{} has {} bytes, more than {}", to_string(spec.kind), spec.text.size(), kMaxSpecBytes));
  }
  if (!is_valid_utf8(spec.text)) throw InvalidArgument("the spec is not UTF-8");
  for (const std::string& choice : spec.choices) {
    if (!is_valid_utf8(choice)) throw InvalidArgument("an entry of choice is not UTF-8");
  }
  if (spec.kind == OutputSpec::Kind::grammar) check_grammar(spec.text);
}

}  // namespace reprise::structured_output
