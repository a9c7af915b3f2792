#pragma once

#include <string>
#include <string_view>

#include "reprise/tokenizer/bounded_text.h"

namespace reprise::tokenizer {

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };

/// Unicode normalization (UAX #15) in O(n log n) for every text. It uses utf8proc's tables, but
/// sorts runs of combining marks; utf8proc's own bubble sort would take hours for a megabyte of
/// marks.
/// \pre `text` is well-formed UTF-8 \throws InvalidArgument when the result would have more than
/// `max_bytes`
[[nodiscard]] std::string to_unicode_form(std::string_view text,
                                          UnicodeForm form,
                                          size_t max_bytes = BoundedText::kNoLimit);

}  // namespace reprise::tokenizer
