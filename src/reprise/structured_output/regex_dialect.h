#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::structured_output {

/// Where the text that a pattern matches will stand.
enum class PatternContext : uint8_t {
  plain,        // the answer itself
  json_string,  // between the quotes of a JSON string: quotes, backslashes and controls are escaped
};

struct NormalisedRegex {
  std::string text;
  // Characters of the texts that match; those of a JSON string without its escapes.
  int64_t min_length = 0;
  std::optional<int64_t> max_length = 0;  // nothing: no end
};

/// Writes a regular expression again with explicit character sets, in the few constructs that every
/// backend reads alike: sets, groups, alternatives and repetitions. The whole text has to match, as
/// if anchored; what it matches, Python's and ECMAScript's engines match too (\w, \d and \s are
/// ASCII). \throws InvalidArgument with the position: no regular expression, one that is not
/// regular (look- around, references, word boundaries, anchors inside), nested or repeated too much
[[nodiscard]] NormalisedRegex normalise_regex(std::string_view pattern, PatternContext context);

}  // namespace reprise::structured_output
