#pragma once

#include "reprise/base/error.h"
#include "reprise/base/json.h"

namespace reprise::structured_output {

/// A schema that no value satisfies: an error, unless it is one of several alternatives.
class NothingIsValid final : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

/// The keywords that decide which values are valid. Titles, descriptions, defaults and unknown
/// keywords are left out. \pre an object
[[nodiscard]] Json assertions_of(const Json& schema);

/// A schema for the values that are valid under both of two schemas.
struct MergedSchema {
  Json schema;
  // False: the schema allows more values, so values must be checked against both.
  bool is_exact = true;
};

/// Merges two schemas. \pre neither has `$ref`, `allOf` or `oneOf`. `pattern` and `format` may
/// become arrays, all elements of which must hold. \throws NothingIsValid
[[nodiscard]] MergedSchema merge_schemas(const Json& left, const Json& right);

/// Whether certainly no value is valid under both.
[[nodiscard]] bool are_disjoint(const Json& left, const Json& right);
/// `type` as in a schema: a name or an array of names.
[[nodiscard]] bool is_of_type(const Json& value, const Json& type);

}  // namespace reprise::structured_output
