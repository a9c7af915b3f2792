#pragma once

#include <optional>
#include <string>

#include "reprise/program/program.h"

namespace reprise::program {

/// The first rule that a program breaks, as a sentence. Nothing if the program is well formed, that
/// is:
///
/// - every value has one definition, and it comes before every use;
/// - every node has the operands, results and attributes of its op, and its results have the types
///   that infer_output_types gives, for small and large values of the symbols;
/// - ops use only the current version of a state, and final_states has the last version of each;
/// - attention overwrites only an `empty` or a buffer, and no other node uses that memory before.
[[nodiscard]] std::optional<std::string> verify(const Program& program);

/// Calls verify(). \throws ProgramError with the sentence that verify() returned
void check(const Program& program);

}  // namespace reprise::program
