#pragma once

#include "reprise/chat_template/builtins.h"

namespace reprise::chat_template {

/// `text % values`: printf-style formatting with Python's conversions.
[[nodiscard]] Value format_percent(Sandbox& sandbox, const Value& text, const Value& values);

}  // namespace reprise::chat_template
