#pragma once

#include "reprise/base/json.h"

namespace reprise::structured_output {

/// Rewrites a JSON schema (drafts 4 to 2020-12) in the few keywords that every backend enforces.
/// Each answer that is valid under the new schema is valid under the old one. The new schema may
/// allow less: objects with `properties` have no other properties, and patterns match whole
/// strings. Annotations and unknown formats are dropped.
/// \throws InvalidArgument with the place when the text is not a schema, is too large, allows no
/// value, or demands something that cannot be enforced (`not`, `if`, `uniqueItems`, `multipleOf`,
/// overlapping `oneOf` ...)
[[nodiscard]] Json normalise_schema(const Json& schema);

}  // namespace reprise::structured_output
