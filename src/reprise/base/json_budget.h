#pragma once

#include <cstddef>
#include <string_view>

#include "reprise/base/json.h"

namespace reprise {

/// Limits of several documents together, for example of a request and the JSON in its texts. A
/// short document can hold very much: each part takes some hundred bytes of memory but only two in
/// the document, and each number takes ten bytes of memory.
struct JsonBudget {
  size_t max_parts = 0;    // members of objects, arrays, objects and texts
  size_t max_numbers = 0;  // numbers, booleans and nulls
  size_t num_parts = 0;    // so far
  size_t num_numbers = 0;

  [[nodiscard]] bool is_exceeded() const {
    return num_parts > max_parts || num_numbers > max_numbers;
  }
};

/// Like parse_json(), but also subtracts the size of the document from the budget. \throws
/// InvalidArgument too when the budget is exceeded
[[nodiscard]] Json parse_json(std::string_view text,
                              std::string_view where,
                              const JsonLimits& limits,
                              JsonBudget& budget);

}  // namespace reprise
