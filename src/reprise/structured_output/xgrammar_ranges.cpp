// Ranges of numbers for xgrammar's converter of schemas. xgrammar's own ranges let wrong numbers
// through. This file is compiled into xgrammar.
#include <cstdint>
#include <string>

#include "reprise/structured_output/number_range.h"

namespace xgrammar {

std::string RangeOfIntegers(int64_t low, int64_t high) {
  return reprise::structured_output::integer_range(low, high);
}

std::string RangeOfNumbers(double low, double high) {
  return reprise::structured_output::decimal_range(low, high);
}

}  // namespace xgrammar
