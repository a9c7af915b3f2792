#pragma once

#include "reprise/base/json.h"

namespace reprise::structured_output {

/// Writes a JSON schema (drafts 4 to 2020-12) again in the few keywords that every backend
/// enforces, so that each answer under the new one is valid under the old one. It may allow less:
/// objects with `properties` have no others, patterns match whole strings. Annotations and unknown
/// formats are dropped.
/// \throws InvalidArgument with the place: no schema, nothing can satisfy it, too large, or it
/// demands what cannot be promised (`not`, `if`, `uniqueItems`, `multipleOf`, overlapping `oneOf`
/// ...)
[[nodiscard]] Json normalise_schema(const Json& schema);

}  // namespace reprise::structured_output
