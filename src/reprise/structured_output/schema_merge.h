#pragma once

#include "reprise/base/json.h"

namespace reprise::structured_output {

/// The keywords that decide which values are valid. Titles, descriptions, defaults and unknown
/// keywords are left out. \pre an object
[[nodiscard]] Json assertions_of(const Json& schema);
/// The schema that holds both conditions. \throws InvalidArgument that names a keyword that cannot
/// be joined
[[nodiscard]] Json merge_schemas(const Json& left, const Json& right);
/// Whether it is certain that no value is valid under both.
[[nodiscard]] bool are_disjoint(const Json& left, const Json& right);
/// `type` as in a schema: a name or an array of names.
[[nodiscard]] bool is_of_type(const Json& value, const Json& type);

}  // namespace reprise::structured_output
