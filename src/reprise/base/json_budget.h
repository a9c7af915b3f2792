#pragma once

#include <cstddef>
#include <string_view>

#include "reprise/base/json.h"

namespace reprise {

/// What several documents may hold together, for example a request and the JSON in its texts. A
/// short document can hold very much: each part takes some hundred bytes of memory and two in the
/// document, each number ten.
struct JsonBudget {
  size_t max_parts = 0;    // members of objects, arrays, objects and texts
  size_t max_numbers = 0;  // numbers, booleans and nulls
  size_t num_parts = 0;    // so far
  size_t num_numbers = 0;

  [[nodiscard]] bool is_exceeded() const {
    return num_parts > max_parts || num_numbers > max_numbers;
  }
};

/// As parse_json(), and takes what the document holds from the budget.
/// \throws InvalidArgument too when the budget is exceeded
[[nodiscard]] Json parse_json(std::string_view text,
                              std::string_view where,
                              const JsonLimits& limits,
                              JsonBudget& budget);

}  // namespace reprise
