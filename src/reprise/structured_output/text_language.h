#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/base/json.h"
#include "reprise/structured_output/regex_dialect.h"

namespace reprise::structured_output {

/// One text and its end mark.
[[nodiscard]] TermId literal_term(RegexTerms& terms, std::string_view text);
/// The texts of a `format` that answers must have; nothing when the format only annotates.
[[nodiscard]] std::optional<TermId> format_term(RegexTerms& terms, std::string_view format);

/// The texts that are valid under `schema`, a part of `root`. Nothing when a keyword is there that
/// automata do not express. \throws InvalidArgument when a keyword is malformed
[[nodiscard]] std::optional<TermId> text_term(RegexTerms& terms,
                                              const Json& root,
                                              const Json& schema,
                                              Reading reading);

/// The member `name` as a count, or nothing when `schema` has none.
[[nodiscard]] std::optional<int64_t> count_member(const Json& schema, const char* name);

}  // namespace reprise::structured_output
