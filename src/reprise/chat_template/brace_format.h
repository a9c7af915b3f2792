#pragma once

#include <string>
#include <string_view>

#include "reprise/chat_template/builtins.h"

namespace reprise::chat_template {

/// `text.format(...)`: replacement fields with attributes, elements, conversions and format specs
/// for str, int and float.
[[nodiscard]] std::string format_braces(Sandbox& sandbox, std::string_view text, const Args& args);

}  // namespace reprise::chat_template
