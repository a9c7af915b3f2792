#pragma once

#include "reprise/base/json.h"

namespace reprise::server {

/// The bodies of requests and answers as JSON Schema by name, for "components/schemas" of the API's
/// description. A test compares the fields with those that the server reads.
[[nodiscard]] Json api_schemas();

}  // namespace reprise::server
