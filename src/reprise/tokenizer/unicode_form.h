#pragma once

#include <string>
#include <string_view>

namespace reprise::tokenizer {

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };

/// Unicode normalization (UAX #15) in O(n log n) whatever the text: utf8proc's tables, but runs of
/// combining marks are sorted, where utf8proc bubbles them (a megabyte of marks would take hours).
/// \pre `text` is well-formed UTF-8
[[nodiscard]] std::string to_unicode_form(std::string_view text, UnicodeForm form);

}  // namespace reprise::tokenizer
