#pragma once

#include "reprise/base/json.h"

namespace reprise::server {

/// The JSON Schemas, by name, of request bodies of APIs other than OpenAI's chats. A test sends
/// each of their fields.
[[nodiscard]] Json dialect_schemas();

}  // namespace reprise::server
