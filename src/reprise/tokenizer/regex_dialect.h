#pragma once

#include <string>
#include <string_view>

namespace reprise::tokenizer {

/// Rewrites a pattern of tokenizer.json (Oniguruma, Ruby syntax) for PCRE2 so that it matches the
/// same text. `\s` and `\w` become the Unicode properties White_Space and word, because PCRE2's own
/// classes lack a few characters. `\uHHHH` becomes a code point.
/// \throws InvalidArgument for syntax that PCRE2 reads differently (nested classes, class
/// intersection, `\h`) and for back-references and recursion, which can take exponential time.
[[nodiscard]] std::string translate_pattern(std::string_view pattern);

}  // namespace reprise::tokenizer
