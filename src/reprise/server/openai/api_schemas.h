#pragma once

#include "reprise/base/json.h"

namespace reprise::server {

/// The JSON Schemas of the bodies of requests and answers, by name, for "components/schemas" of the
/// API's description. A test compares the fields with the fields that the server reads.
[[nodiscard]] Json api_schemas();

}  // namespace reprise::server
