#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "reprise/structured_output/regex_terms.h"

namespace reprise::structured_output {

/// Which part of a text a pattern has to match.
enum class Anchoring : uint8_t {
  whole_text,
  anywhere,  // as JSON schemas say; `^` and `$` in the pattern hold it to the ends
};

/// Engines read \w, \d, \s, `.` and `$` differently.
enum class Reading : uint8_t {
  narrow,  // the texts that Python's and ECMAScript's engines both match
  wide,    // the texts that one of them may match
};

/// The texts, each with its end mark, that `pattern` matches. Look-ahead is exact. \throws
/// InvalidArgument with the position when the pattern is malformed, is not regular (references,
/// look-behind, word boundaries), or nests or repeats too much
[[nodiscard]] TermId regex_term(RegexTerms& terms,
                                std::string_view pattern,
                                Anchoring anchoring,
                                Reading reading);

/// The texts that match as a whole, and then one of the texts of `then`.
[[nodiscard]] TermId regex_term_before(RegexTerms& terms, std::string_view pattern, TermId then);

/// Any characters, from `least` to `most` of them, and the end mark.
[[nodiscard]] TermId length_term(RegexTerms& terms, int64_t least, std::optional<int64_t> most);

}  // namespace reprise::structured_output
