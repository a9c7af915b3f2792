#pragma once

#include "reprise/base/json.h"

namespace reprise::structured_output {

/// Checks a structural tag, {"type": "structural_tag", "format": ...} or the older form with
/// `structures` and `triggers`, and normalises the schemas and patterns in it.
/// \throws InvalidArgument
[[nodiscard]] Json normalise_structural_tag(const Json& tag);

}  // namespace reprise::structured_output
