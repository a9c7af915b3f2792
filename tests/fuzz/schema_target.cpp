#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/structured_output/json_schema.h"
#include "reprise/structured_output/output_spec.h"
#include "reprise/structured_output/structural_tag.h"
#include "tests/fuzz/targets.h"

namespace reprise::fuzz {

void schema(std::string_view input) {
  using namespace structured_output;
  for (const OutputSpec::Kind kind :
       {OutputSpec::Kind::json_schema, OutputSpec::Kind::structural_tag}) {
    try {
      const OutputSpec normalised = normalise_spec({.kind = kind, .text = std::string(input)});
      (void)parse_json(normalised.text, "the normalised text");
    } catch (const InvalidArgument&) {
      // The schema is refused with a named error, as intended.
    }
  }
}

}  // namespace reprise::fuzz
