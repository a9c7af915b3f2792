#pragma once

#include <string>
#include <string_view>

namespace reprise::tokenizer {

/// Rewrites a pattern of tokenizer.json (Oniguruma, Ruby syntax) for PCRE2 so that it matches the
/// same text: `\s` and `\w` mean the Unicode properties White_Space and word, which PCRE2's
/// own classes miss by a few characters, and `\uHHHH` is a code point.
/// \throws InvalidArgument for what PCRE2 would read differently: nested classes, class
/// intersection, `\h`; and for back-references and recursion, which can take exponential time.
[[nodiscard]] std::string translate_pattern(std::string_view pattern);

}  // namespace reprise::tokenizer
