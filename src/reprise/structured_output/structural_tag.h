#pragma once

#include "reprise/base/json.h"
#include "reprise/structured_output/answer_program.h"
#include "reprise/structured_output/schema_compiler.h"

namespace reprise::structured_output {

/// Adds the texts of a structural tag to `program`: {"type": "structural_tag", "format": ...} or
/// the older form with `structures` and `triggers`. \throws InvalidArgument that names the place
[[nodiscard]] NodeId compile_structural_tag(AnswerProgram& program,
                                            const Json& tag,
                                            const TextSettings& settings);

}  // namespace reprise::structured_output
