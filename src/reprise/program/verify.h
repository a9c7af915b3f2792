#pragma once

#include <optional>
#include <string>

#include "reprise/program/program.h"

namespace reprise::program {

/// The first rule that a program breaks, as a sentence. Nothing: the program is well formed:
///
/// - every value has one definition, and it comes before every use;
/// - every node has the operands, results and attributes of its op, and its results have the types
///   that the op's own rule (infer_output_types) gives, for small and large values of the symbols;
/// - ops read and write only the current version of a state, and the last version is kept;
/// - attention overwrites only an `empty` or a buffer, and nothing else uses that memory.
[[nodiscard]] std::optional<std::string> verify(const Program& program);

/// \throws ProgramError with verify()'s sentence
void check(const Program& program);

}  // namespace reprise::program
