#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/base/json.h"
#include "reprise/structured_output/regex_dialect.h"

namespace reprise::structured_output {

/// The given text with its end mark.
[[nodiscard]] TermId literal_term(RegexTerms& terms, std::string_view text);
/// The texts of a `format` that answers must have; nothing if the format is only an annotation.
[[nodiscard]] std::optional<TermId> format_term(RegexTerms& terms, std::string_view format);

/// The texts that are valid under `schema`, a part of `root`. Nothing if `schema` has a keyword
/// that automata cannot express. \throws InvalidArgument if a keyword is malformed
[[nodiscard]] std::optional<TermId> text_term(RegexTerms& terms,
                                              const Json& root,
                                              const Json& schema,
                                              Reading reading);

/// The member `name` as a count, or nothing if `schema` does not have it.
[[nodiscard]] std::optional<int64_t> count_member(const Json& schema, const char* name);

}  // namespace reprise::structured_output
