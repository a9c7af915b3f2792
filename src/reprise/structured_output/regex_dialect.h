#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "reprise/structured_output/regex_terms.h"

namespace reprise::structured_output {

/// The part of a text that a pattern must match.
enum class Anchoring : uint8_t {
  whole_text,
  anywhere,  // any part, as in JSON schemas; `^` and `$` in the pattern bind it to the ends
};

/// Engines read \w, \d, \s, `.` and `$` differently.
enum class Reading : uint8_t {
  narrow,  // only texts that Python's and ECMAScript's engines both match
  wide,    // all texts that at least one of them matches
};

/// The texts, each with its end mark, that `pattern` matches. Look-ahead is exact. \throws
/// InvalidArgument with the position when the pattern is malformed, is not regular (references,
/// look-behind, word boundaries), or nests or repeats too much
[[nodiscard]] TermId regex_term(RegexTerms& terms,
                                std::string_view pattern,
                                Anchoring anchoring,
                                Reading reading);

/// The texts that match as a whole, each followed by one of the texts of `then`.
[[nodiscard]] TermId regex_term_before(RegexTerms& terms, std::string_view pattern, TermId then);

/// Texts of any characters, from `least` to `most` of them, with the end mark.
[[nodiscard]] TermId length_term(RegexTerms& terms, int64_t least, std::optional<int64_t> most);

}  // namespace reprise::structured_output
