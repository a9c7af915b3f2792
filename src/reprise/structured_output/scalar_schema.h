#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "reprise/base/json.h"

/// The parts of a JSON schema that hold no other schema, written for the backends.
/// Each function throws InvalidArgument for what cannot be enforced; the message does not name the
/// place in the schema.
namespace reprise::structured_output {

/// The member `name` as a count, or nothing when `given` has none.
[[nodiscard]] std::optional<int64_t> count_member(const Json& given, const char* name);
[[nodiscard]] Json string_schema(const Json& given);
/// A string that matches `pattern`.
[[nodiscard]] Json pattern_schema(const Json& pattern);
/// \param type "integer" or "number"
[[nodiscard]] Json number_schema(const std::string& type, const Json& given);

}  // namespace reprise::structured_output
