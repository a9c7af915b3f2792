#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::structured_output {

/// The required form of an answer. A plain value; normalise_spec() checks it.
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
  /// For JSON: true allows any whitespace between the tokens of JSON; false allows only ", " and ":
  /// ".
  bool any_whitespace = true;

  friend bool operator==(const OutputSpec&, const OutputSpec&) = default;
};

[[nodiscard]] std::string_view to_string(OutputSpec::Kind kind);

// Limits on the spec of one request.
inline constexpr size_t kMaxSpecBytes = size_t{64} << 10;
inline constexpr int kMaxNesting = 128;      // of groups in patterns and grammars
inline constexpr int kMaxSchemaDepth = 64;   // of JSON
inline constexpr size_t kMaxChoices = 512;   // also values of all enums together
inline constexpr int kMaxRepetition = 4096;  // {m,n}, minItems, maxLength ...; their product too

/// Rewrites the spec in the constructs that every backend reads in the same way, and bounds its
/// cost. An answer that fits the result fits the spec (see json_schema.h, regex_dialect.h).
/// \throws InvalidArgument that names the problem and its place
[[nodiscard]] OutputSpec normalise_spec(const OutputSpec& spec);

}  // namespace reprise::structured_output
