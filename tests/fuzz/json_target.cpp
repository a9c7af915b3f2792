#include "reprise/base/json.h"

#include <algorithm>

#include "reprise/base/error.h"
#include "tests/fuzz/targets.h"

namespace reprise::fuzz {
namespace {

constexpr JsonLimits kJsonLimits = {.max_bytes = 4096, .max_depth = 16, .max_parts = 256};

int depth_of(const Json& value) {
  int depth = 0;
  for (const Json& part : value) {
    if (part.is_structured()) depth = std::max(depth, depth_of(part));
  }
  return depth + 1;
}

}  // namespace

void json(std::string_view input) {
  try {
    const Json value = parse_json(input, "f", kJsonLimits);
    require(input.size() <= kJsonLimits.max_bytes, "a long document is refused");
    if (value.is_structured()) {
      require(depth_of(value) <= kJsonLimits.max_depth, "a deep document is refused");
    }
    // The first output may write numbers in another form; further outputs must keep that form.
    const std::string text = value.dump();
    const Json again = parse_json(text, "f");
    require(again.dump() == text, "a printed document is read as the same value");
  } catch (const InvalidArgument&) {
    // The document is refused, as intended.
  }
}

}  // namespace reprise::fuzz
