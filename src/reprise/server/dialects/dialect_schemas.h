#pragma once

#include "reprise/base/json.h"

namespace reprise::server {

/// The JSON Schemas of the bodies of requests of other APIs than OpenAI's chats, by name. A test
/// sends each of their fields.
[[nodiscard]] Json dialect_schemas();

}  // namespace reprise::server
