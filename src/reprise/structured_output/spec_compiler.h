#pragma once

#include <memory>

#include "reprise/structured_output/answer_program.h"
#include "reprise/structured_output/output_spec.h"
#include "reprise/structured_output/schema_compiler.h"

namespace reprise::structured_output {

/// The program of a spec of any kind except `grammar`. \throws InvalidArgument that names the
/// problem and its place
[[nodiscard]] std::shared_ptr<const AnswerProgram> compile_spec(const OutputSpec& spec,
                                                                const TextSettings& settings);

}  // namespace reprise::structured_output
