#pragma once

#include <span>

#include "reprise/chat_template/builtins.h"

namespace reprise::chat_template {

/// Filters over sequences and dicts: join, map, selectattr, sort, ...
[[nodiscard]] std::span<const Builtin> sequence_filters();

}  // namespace reprise::chat_template
