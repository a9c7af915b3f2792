#pragma once

#include <string_view>

#include "reprise/base/json.h"

namespace reprise {

/// Reads JSON, or the same value as Python writes it: 'text', True, False, None, (1, 2), [1,]. vLLM
/// reads the values of its options in both forms.
/// \throws InvalidArgument as parse_json() does, with what is wrong with the text as JSON
[[nodiscard]] Json parse_json_or_python(std::string_view text, std::string_view where);

/// The same; a text that is neither JSON nor a Python literal is a string: FULL in `--name.mode
/// FULL`. \throws InvalidArgument for JSON that parse_json() refuses, such as a repeated name
[[nodiscard]] Json parse_json_or_text(std::string_view text, std::string_view where);

}  // namespace reprise
