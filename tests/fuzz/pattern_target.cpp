#include "reprise/base/error.h"
#include "reprise/structured_output/output_spec.h"
#include "reprise/structured_output/regex_dialect.h"
#include "tests/fuzz/targets.h"

namespace reprise::fuzz {

void pattern(std::string_view input) {
  using namespace structured_output;
  for (const PatternContext context : {PatternContext::plain, PatternContext::json_string}) {
    try {
      const NormalisedRegex regex = normalise_regex(input, context);
      require(regex.min_length >= 0, "no text has a negative length");
      require(!regex.max_length || *regex.max_length >= regex.min_length,
              "the longest text is not shorter than the shortest");
    } catch (const InvalidArgument&) {
      // The pattern is refused with a named error, as intended.
    }
  }
  try {
    const OutputSpec spec = {.kind = OutputSpec::Kind::regex, .text = std::string(input)};
    require(input.size() <= kMaxSpecBytes, "a long pattern is refused");
    (void)normalise_spec(spec);
  } catch (const InvalidArgument&) {
  }
}

}  // namespace reprise::fuzz
