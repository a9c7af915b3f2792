#pragma once

#include <string_view>

#include "reprise/chat_template/builtins.h"

namespace reprise::chat_template {

/// The method of Python's str with that name, or null.
[[nodiscard]] const Builtin* find_text_method(std::string_view name);

}  // namespace reprise::chat_template
