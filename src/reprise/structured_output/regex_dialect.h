#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::structured_output {

/// The place where the matched text will stand.
enum class PatternContext : uint8_t {
  plain,        // the answer itself
  json_string,  // between the quotes of a JSON string: quotes, backslashes and controls are escaped
};

struct NormalisedRegex {
  std::string text;
  // Lengths in characters of the texts that match. In a JSON string, an escape counts as one
  // character.
  int64_t min_length = 0;
  std::optional<int64_t> max_length = 0;  // nothing: no upper limit
};

/// Rewrites a regular expression with explicit character sets, in the few constructs that every
/// backend reads in the same way: sets, groups, alternatives and repetitions. The whole text must
/// match, as if the pattern were anchored. Python's and ECMAScript's engines match every text that
/// the result matches (\w, \d and \s are ASCII). \throws InvalidArgument with the position when the
/// pattern is malformed, is not regular (look-around, references, word boundaries, anchors inside),
/// or nests or repeats too much
[[nodiscard]] NormalisedRegex normalise_regex(std::string_view pattern, PatternContext context);

}  // namespace reprise::structured_output
