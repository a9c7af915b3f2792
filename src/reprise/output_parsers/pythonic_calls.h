#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "reprise/output_parsers/tool_call.h"

namespace reprise::output_parsers {

/// Reads calls in the syntax of Python: `f(a=1, b="x")`, or several with commas, semicolons or line
/// ends between them, with or without brackets around them. Arguments have names; values are
/// literals, also true, false and null. Empty if `text` is anything else.
[[nodiscard]] std::vector<Call> read_pythonic_calls(std::string_view text);

/// The end of the list that begins at the start of `text`: one past its last bracket, or npos while
/// the list is incomplete. Only brackets and strings are looked at.
[[nodiscard]] size_t end_of_pythonic_list(std::string_view text);

/// Whether more text could still make `text` the beginning of a list of calls: `[`, or `[name(`.
[[nodiscard]] bool may_begin_pythonic_list(std::string_view text);

}  // namespace reprise::output_parsers
