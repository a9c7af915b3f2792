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

/// A schema of two schemas that both hold.
struct MergedSchema {
  Json schema;
  bool is_exact = true;  // false: it allows more, so values have to be checked against both
};

/// \pre both have no `$ref`, `allOf` and `oneOf`. `pattern` and `format` may become arrays, of
/// which all hold. \throws NothingIsValid
[[nodiscard]] MergedSchema merge_schemas(const Json& left, const Json& right);

/// Whether it is certain that no value is valid under both.
[[nodiscard]] bool are_disjoint(const Json& left, const Json& right);
/// `type` as in a schema: a name or an array of names.
[[nodiscard]] bool is_of_type(const Json& value, const Json& type);

}  // namespace reprise::structured_output
