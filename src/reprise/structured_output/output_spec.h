#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::structured_output {

/// The required form of an answer. A plain value; compile_spec() reads it.
struct OutputSpec {
  enum class Kind : uint8_t {
    json_object,     // any JSON object
    json_schema,     // text: the schema
    regex,           // text: matched by the whole answer
    choice,          // choices: the answer is one of them
    grammar,         // text: EBNF with the rule `root`
    structural_tag,  // text: free text with constrained parts, as JSON
  };
  Kind kind = Kind::json_object;
  std::string text;
  std::vector<std::string> choices;
  /// For JSON: true allows any whitespace between tokens; false allows only ", " and ": ".
  bool any_whitespace = true;

  friend bool operator==(const OutputSpec&, const OutputSpec&) = default;
};

[[nodiscard]] std::string_view to_string(OutputSpec::Kind kind);

// Limits on the spec of one request. Specs of people and code generators are smaller.
inline constexpr size_t kMaxSpecBytes = size_t{1} << 20;
inline constexpr int kMaxNesting = 128;           // of groups in patterns and grammars
inline constexpr int kMaxSchemaDepth = 64;        // of JSON
inline constexpr size_t kMaxChoices = 20'000;     // also values of all enums together
inline constexpr size_t kMaxBranches = 1000;      // of one anyOf
inline constexpr size_t kMaxProperties = 20'000;  // of all objects together
inline constexpr int kMaxRepetition = 1'000'000;  // {m,n} in a pattern

/// Checks the size and the characters of a spec, and limits the cost of a grammar. \throws
/// InvalidArgument that names the problem
void check_spec(const OutputSpec& spec);

}  // namespace reprise::structured_output
