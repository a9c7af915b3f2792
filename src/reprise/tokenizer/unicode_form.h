#pragma once

#include <string>
#include <string_view>

namespace reprise::tokenizer {

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };

/// Unicode normalization (UAX #15) in O(n log n) for every text. It uses utf8proc's tables, but
/// sorts runs of combining marks; utf8proc's own bubble sort would take hours for a megabyte of
/// marks.
/// \pre `text` is well-formed UTF-8
[[nodiscard]] std::string to_unicode_form(std::string_view text, UnicodeForm form);

}  // namespace reprise::tokenizer
