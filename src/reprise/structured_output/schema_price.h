#pragma once

#include <cstddef>

#include "reprise/base/json.h"

namespace reprise::structured_output {

// Limits on one schema, far above those that people and code generators write. The time to compile
// a schema grows with the square of each of these numbers.
inline constexpr size_t kMaxConstantBytes = size_t{24} << 10;  // of enum and const together
inline constexpr size_t kMaxOneConstantBytes = 1024;           // of one value of them
inline constexpr size_t kMaxProperties = 256;                  // of all objects together

/// Refuses a schema that the backend could only compile in much time, before any of its work.
/// \throws InvalidArgument that names the limit
void check_price(const Json& schema);

}  // namespace reprise::structured_output
